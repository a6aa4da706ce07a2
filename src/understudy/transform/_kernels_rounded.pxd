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
