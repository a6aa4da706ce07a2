# Types for the compiled build of _kernels_rounded.py.
cimport cython
from libc cimport math

ctypedef Py_ssize_t I

# Compiled twice where the linker can choose at load time: for every x86-64, and for those with vectors of four.
# Neither fuses a multiplication with an addition, so both give the same bits.
cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute)
    #if __has_attribute(target_clones)
    #define UNDERSTUDY_TWICE __attribute__((target_clones("avx2", "default"))) void
    #endif
    #endif
    #ifndef UNDERSTUDY_TWICE
    #define UNDERSTUDY_TWICE void
    #endif
    """
    ctypedef void twice "UNDERSTUDY_TWICE"

cdef double ROOT_HALF
cdef double INV_ROOT_2PI
cdef double LOG_ROOT_2PI
cdef double TOLERANCE
cdef double ROUNDING
cdef double LARGEST
cdef double SURE
cdef double WHOLE
cdef double FRACTIONS
cdef double MISSING
cdef double ENDLESS
cdef double DEEP
cdef double TINY
cdef double UNLIKELY

@cython.locals(t=double, point=double)
cpdef inline double grid_point(double y, double step, double offset) noexcept

@cython.locals(left=bint, t=double, m=double, s=double, f=double, M0=double, M1=double, M2=double, mean=double,
               variance=double, P=double, above=double, tail=double, i=I)
cpdef inline bint cell(double a, double b, double half, double v, const double[::1] nodes, double[::1] r) noexcept

@cython.locals(N=I, oM=I, oK=I, oT=I, o=I, oQ=I, oC=I, od=I, i=I, j=I, l=I, c=I, missing=bint, t=double, S=double,
               q=double, shift=double, variance=double, half=double, low=double, high=double, s=double)
cpdef tuple run_cells(const double[::1] y, const double[::1] v, double[::1] out, I k, I stop, I n, I d,
                      const double[::1] system, I stride, const double[::1] grid, double[::1] x, double[::1] P,
                      const double[::1] nodes, double[::1] w, double[::1] r)

@cython.locals(A=double, b=double, Q=double, C=double, d=double, R=double, step=double, offset=double, low=double,
               high=double, half=double, square=double, least=double, most=double, middle=double, scale=double,
               top=double, t=double, z=double, F=double, point=double, e=double, G=double, S=double, i=double,
               c=double, g=double, f=double, u=double, h=double, M=double, V=double, K=double, s=double, slope=double,
               level=double, S1=double, S0=double, A2=double, G1=double, G0=double)
cpdef tuple run_line(const double[::1] y, const double[::1] v, double[::1] E, double[::1] D, I k, I stop,
                     const double[::1] system, const double[::1] grid, double x, double P, const double[::1] table,
                     const double[::1] nodes, double[::1] r)

@cython.locals(k=I)
cpdef void line_rooms(const double[::1] y, const double[::1] v, double[::1] E, double[::1] D, I rooms,
                      const double[::1] system, const double[::1] grid, double[::1] x, double[::1] P,
                      const double[::1] table, const double[::1] nodes, double[::1] r, I[::1] bad)

@cython.locals(k=I, o=I, e=I)
cpdef void cells_rooms(const double[::1] y, const double[::1] v, double[::1] out, I rooms, I n, I d,
                       const double[::1] system, const double[::1] grid, double[::1] x, double[::1] P,
                       const double[::1] nodes, double[::1] w, double[::1] r, I[::1] bad)

@cython.locals(A=double, b=double, Q=double, C=double, d=double, R=double, step=double, offset=double, low=double,
               high=double, half=double, square=double, least=double, most=double, middle=double, scale=double,
               top=double, t=double, z=double, F=double, point=double, e=double, G=double, S=double, i=double,
               c=double, g=double, f=double, u=double, h=double, M=double, V=double, K=double, slope=double,
               level=double, S1=double, S0=double, A2=double, G1=double, G0=double, near=double, inverse=double,
               M0=double, M1=double, M2=double, M3=double, M4=double, M5=double, M6=double, V0=double, V1=double,
               V2=double, V3=double, V4=double, V5=double, V6=double, j=I, l=I, wide=I, at=I, stop=I, x="double[8]",
               P="double[8]", xs="double[8]", Ps="double[8]", es="double[8]", ds="double[8]", fs="double[8]")
cpdef twice run_lanes(const double[::1] y, const double[::1] v, double[::1] E, double[::1] D, I k, I length,
                      const double[::1] system, const double[::1] grid, double[::1] states,
                      const double[::1] table, const double[::1] nodes, double[::1] r)

@cython.locals(square=double, k=I, e=double, i=double, c=double, g=double, f=double, h=double, u=double, even=double,
               odd=double, p=double, q=double, s=double, t=double, w=double)
cpdef twice line_scores(const double[::1] E, const double[::1] D, const double[::1] v, double[::1] out, I count,
                        double half, const double[::1] table)

@cython.locals(square=double, k=I, e=double, i=double, c=double, g=double, f=double, h=double, u=double, even=double,
               odd=double, p=double, q=double, s=double, t=double, w=double)
cpdef twice line_scores_short(const double[::1] E, const double[::1] D, const double[::1] v, double[::1] out, I count,
                              double half, const double[::1] table)

@cython.locals(k=I, t=double, s=double, r=double)
cpdef twice round_all(double[::1] y, I count, double step, double offset)

@cython.locals(step=double, half=double, reach=double, o=I, A=double, b=double, Q=double, C=double, d=double,
               R=double, N=I, t=double, point=double, low=double, high=double, first=double, slope=double, r=double,
               left=bint, share=double, above=double, P=double, j=I, q=double, p=double, tail=double, below=double,
               last=double, root=double, noise=double, count=I, width=double, start=double, drop=double, total=double,
               largest=double, i=I, u=double, L=double, mean=double)
cpdef tuple run_points(const double[::1] y, const double[::1] v, double[::1] out, I k, I stop,
                       const double[::1] system, I stride, const double[::1] grid, const double[::1] fineness,
                       double[::1] state, double[::1] W, double[::1] U)

@cython.locals(t=double, j=I, g=double, total=double, r=double, f=double, ratio=double, i=I)
cdef inline double smoothed(const double[::1] W, I N, double u, double slope, double drop) noexcept

@cython.locals(k=I, i=I, s=double, t=double, half=double, m=double, P=double, q=double)
cpdef void log_cells(const double[::1] a, const double[::1] b, const double[::1] v, double[::1] logs,
                     double[::1] log_v, double[::1] log_w, const double[::1] nodes, I count)

@cython.locals(step=double, offset=double, low=double, high=double, level=double, one=double, two=double, y=double,
               x=double, mean=double, k=I)
cpdef void run_regression(const double[::1] e, double[::1] out, I count, I order, const double[::1] system,
                          const double[::1] grid, double[::1] past)

@cython.locals(t=double, s=double, r=double)
cdef inline double on_grid(double y, double step, double offset, double low, double high) noexcept

@cython.locals(n=I, k=I, begin=I, i=I, j=I, size=I, mean=double, s=double, e=double, y=double)
cpdef void guess_regression(const double[::1] z, double[::1] out, I count, I order, I d, const double[::1] system,
                            const double[::1] root, const double[::1] grid, const double[::1] tables,
                            const I[::1] sizes, double[::1] past, double[::1] w)

@cython.locals(oC=I, od=I, width=I, k=I, i=I, j=I, g=I, t=double, mean=double, y=double)
cpdef void guess_filter(const double[::1] given, const I[::1] index, double[::1] out, double[::1] X, I count, I n,
                        I d, const double[::1] system, const double[::1] gains, const double[::1] grid, bint colour,
                        double[::1] w)

@cython.locals(low=I, high=I, i=I, width=double, t=double, u=double, first=double, rise=double)
cdef inline double interpolated(double x, const double[::1] table, I at, I values, I slopes, I size) noexcept

@cython.locals(k=I, i=I, p=double, q=double, z=double, small=double)
cpdef void mixture_tails(const double[::1] y, double[::1] below, double[::1] above, I count,
                         const double[::1] parts, I K)

@cython.locals(k=I)
cpdef void upper_tails(const double[::1] z, double[::1] out, I count)

@cython.locals(k=I, i=I, side=double, goal=double, total=double, best=double, quantile=double, low=double,
               high=double, u=double)
cpdef void mixture_begin(const double[::1] z, const double[::1] beyond, double[::1] work, I count,
                         const double[::1] parts, I K)

@cython.locals(n=I, k=I, i=I, side=double, u=double, q=double, total=double, bend=double, rate=double, scale=double,
               x=double, density=double, change=double)
cpdef void mixture_look(const I[::1] todo, double[::1] tail, double[::1] sums, I count, const double[::1] work,
                        const double[::1] parts, I K)

@cython.locals(left=I, n=I, k=I, goal=double, u=double, total=double, rate=double, score=double, slope=double,
               miss=double, move=double, t=double, low=double, high=double)
cpdef I mixture_move(I[::1] todo, const double[::1] tail, const double[::1] scores, const double[::1] sums,
                     double[::1] out, I count, double[::1] work, double small)
