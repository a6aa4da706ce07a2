# Types for the compiled build of _kernels.py; see that file for what each function does.
# "inline" draws a warning from Cython, which wants it with the body; but the body is plain Python,
# and without it each call copies five array descriptors: 124 ns a step of 4 states, against 89.
cimport cython

ctypedef Py_ssize_t I

cpdef I gain_width(I n, I d)
cpdef I system_width(I n, I d)
cpdef I workspace(I n, I d)

@cython.locals(sb=I, sQ=I, sC=I, sd=I, sR=I, oH=I, og=I, oL=I, orr=I, oh=I, oK=I, oA=I, ob=I, oM=I, oP=I, m=I,
               wJ=I, wV=I, wD=I, i=I, j=I, e=I, t=double, scale=double)
cdef int gain_step(const double[::1] system, I s, I n, I d, double[::1] P, double[::1] row, I o, double[::1] w) noexcept

@cython.locals(sQ=I, wT=I, i=I, j=I, e=I, t=double)
cdef void predict_covariance(const double[::1] system, I s, I n, double[::1] P, double[::1] w) noexcept

cdef bint returned(const double[::1] P, const double[::1] row, I o, const double[::1] ref, I n, bint still) noexcept

@cython.locals(i=I, j=I, t=double, bound=double)
cdef bint same_covariance(const double[::1] P, const double[::1] ref, I o, const double[::1] sigma, I so, I n,
                          double tolerance) noexcept

@cython.locals(width=I, stride=I, k=I, bad=int)
cpdef tuple fill_table(const double[::1] system, bint varying, I n, I d, double[::1] P, double[::1] table,
                       I first, I stop, double tolerance, double[::1] w)

@cython.locals(i=I, j=I, p=I, q=I, t=double, u=double, v=double)
cdef inline void products(const double[::1] row, I o, I rows, I columns, const double[::1] x, double[::1] out,
                          I oo) noexcept

@cython.locals(oH=I, og=I, oh=I, oL=I, orr=I, i=I, j=I, t=double)
cdef inline void score_step(const double[::1] row, I o, I n, I d, const double[::1] y, I yo,
                            double[::1] x, double[::1] z, I zo, double[::1] w) noexcept

@cython.locals(oH=I, oA=I, og=I, ob=I, oL=I, i=I, j=I, u=double)
cdef inline void emit_step(const double[::1] row, I o, I n, I d, double[::1] x, double[::1] y, I yo,
                           double[::1] w) noexcept

@cython.locals(width=I, widtht=I, last=I, lastt=I, k=I, i=I, j=I, t=double)
cpdef I run(const double[::1] y, double[::1] out, I first, I stop, I d,
            const double[::1] source, I n, double[::1] x, const double[::1] target, I m, double[::1] xt,
            I index, double[::1] w)

@cython.locals(A=double, b=double, Q=double, C=double, d=double, R=double, H=double, g=double, s=double, k=I, o=I,
               sigma=double, S=double, L=double, r=double, M=double, K=double, J=double, G=double, t=double)
cpdef tuple fill_scalar(const double[::1] system, double P, double[::1] table, I first, I stop, double tolerance)

@cython.locals(big=double)
cdef inline double rounded(double t, double scale, double n, double m, double most) noexcept

@cython.locals(k=I, t=double, half=double)
cpdef void round_to_lattice(double[::1] y, double scale, double n, double m, double most, double shift) noexcept

@cython.locals(last=I, lastt=I, k=I, i=I, j=I, it=I, end=I, t=double, e=double, overflow=double, shift=double,
               far=double,
               G=double, u=double, v=double, r=double, A=double, s=double, w=double, L=double)
cpdef tuple run_scalar(const double[::1] y, double[::1] out, I first, I stop,
                       const double[::1] source, double q, const double[::1] target, double qt, I index,
                       double shift)

@cython.locals(sw=I, swt=I, width=I, widtht=I, k=I, s=I, st=I, i=I, seen=I, width_seen=I, t=double, nan=double,
               part=double[::1], part_out=double[::1], row=double[::1], rowt=double[::1],
               reduced=double[::1], work=double[::1])
cpdef tuple run_off_table(
    const double[::1] y, double[::1] out, double[::1] scale, I first, I stop, I d, bint partial,
    const double[::1] source, const I[::1] which, I n, double[::1] x, double[::1] P, const double[::1] ref,
    const double[::1] target, const I[::1] whicht, I m, double[::1] xt, double[::1] Pt, const double[::1] reft,
    I[::1] channels, double[::1] w)

@cython.locals(i=I, j=I, t=double)
cdef void skip_step(const double[::1] system, I s, I n, double[::1] x, double[::1] P, double[::1] w) noexcept

@cython.locals(head=I, i=I, j=I)
cdef void reduce_system(const double[::1] system, I s, I n, I d, I[::1] channels, I count, double[::1] out) noexcept

cdef class ScalarStep:
    cdef const double[::1] source
    cdef const double[::1] target
    cdef I last, lastt, limit, frozen
    cdef object slow
    @cython.locals(j=I, i=I, it=I, q=double, qt=double, t=double, e=double, r=double, out=double)
    cpdef object step(self, object state, object y)

@cython.locals(t=double)
cdef inline bint is_coarse(double y) noexcept

cdef inline bint watch_reading(double y, I room, I[::1] watch) noexcept

@cython.locals(t=double)
cdef inline bint scalar_returned(double P, double before, double settled, double root, bint still) noexcept

@cython.locals(nan=double, value=double, r=I, i=I, s=I, d=I, skips=I, j=I, a=I, b=I, o=I, ot=I, k=I, x=double,
               xt=double, P=double, Pt=double, t=double, v=double, q=double, e=double, A=double, At=double, S=double,
               St=double, p=double, pt=double, C=double, w=double, L=double, K=double, J=double)
cpdef void run_rooms_scalar(
    const double[::1] y, double[::1] out, I[::1] why, const I[::1] room, const I[::1] steps, const I[::1] source,
    const I[::1] draw, const I[::1] change, I rooms, I[::1] index, double[::1] state, I[::1] sources, I[::1] draws,
    I[::1] readings, I[::1] released, I[::1] watch, bint watched,
    const double[::1] table, const I[::1] first, const I[::1] last, const double[::1] system, const double[::1] line,
    const double[::1] tablet, const I[::1] firstt, const I[::1] lastt, const double[::1] systemt,
    const double[::1] linet) noexcept

@cython.locals(nan=double, width=I, widtht=I, sw=I, swt=I, x=double[::1], xt=double[::1], h=I, P=double[::1],
               Pt=double[::1], row=double[::1], rowt=double[::1], work=double[::1], r=I, i=I, missing=bint,
               coarse=bint, c=I, t=double, s=I, b=I, skips=I, j=I, e=I, a=I, bt=I, bad=bint, leave=bint, seen=bint)
cpdef void run_rooms(
    const double[::1] y, double[::1] out, I[::1] why, const I[::1] room, const I[::1] steps, const I[::1] source,
    const I[::1] draw, const I[::1] change, I rooms, I[::1] index, double[::1] state, I[::1] sources, I[::1] draws,
    I[::1] readings, I[::1] released, I[::1] watch, const I[::1] watched,
    I d, I n, const double[::1] table, const I[::1] first, const I[::1] last, const double[::1] system,
    const double[::1] settled, const double[::1] start,
    I m, const double[::1] tablet, const I[::1] firstt, const I[::1] lastt, const double[::1] systemt,
    const double[::1] settledt, const double[::1] startt, double[::1] w) noexcept
