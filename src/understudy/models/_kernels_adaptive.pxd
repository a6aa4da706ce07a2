# Types for the compiled build of _kernels_adaptive.py.
cimport cython
from libc cimport math

ctypedef Py_ssize_t I

cdef I RUN
cdef I LABEL
cdef I DECAY
cdef I LAST
cdef I STEPS
cdef I RECENT
cdef I HEAD
cdef I WINDOW
cdef I CENTRE
cdef I SPREAD
cdef I UNIT
cdef I RATE
cdef I SHARE
cdef I FLOOR
cdef I CELL
cdef I START
cdef I ORDER
cdef I LEARNS
cdef I REFILL
cdef I COUNTED
cdef I MIDDLE
cdef I PHI
cdef I HALF
cdef I HEIGHT
cdef I WEIGHT
cdef I EXPERT
cdef double PULL
cdef double WIDEST
cdef double FARTHEST
cdef double TINY

@cython.locals(nu=double, r=double, x=double, s=double, m=I, c=double, total=double, j=I)
cpdef double student_tail(double t, double half) noexcept

@cython.locals(nu=double, x=double, f=double, _=I)
cpdef double student_density(double t, double half, double height) noexcept

cpdef I block_size(I n, I K) noexcept

@cython.locals(run=double, p=I, unit=double, there=I, s=double, o=I, w=I, mean=double, q=double, k=I, i=I, j=I)
cpdef void prepare(const double[::1] state, I which, I n, I K, const double[::1] constants, const double[::1] experts,
                   const double[::1] prior, double[::1] x, double[::1] law) noexcept

@cython.locals(low=double, up=double, t=double, q=double, k=I)
cpdef void mixture_tails(double y, I K, const double[::1] experts, const double[::1] law, double[::1] out) noexcept

@cython.locals(f=double, t=double, k=I)
cpdef double mixture_density(double y, I K, const double[::1] experts, const double[::1] law) noexcept

@cython.locals(size=double, drift=double, c=I, i=I)
cpdef I find_cell(const double[::1] state, I which, I n, I K, I m, I B, const double[::1] constants,
                  const double[::1] x) noexcept

@cython.locals(total=double, sign=I, u=double, r=double, b=I, i=I, part=double, here=double)
cpdef double bend(double low, double up, const double[::1] state, I at, I B, double[::1] out) noexcept

@cython.locals(total=double, goal=double, part=double, here=double, b=I, i=I, u=double)
cpdef double unbend(double q, bint upper, const double[::1] state, I at, I B) noexcept

@cython.locals(run=double, unit=double, half=double, at=I, low=double, up=double, high=double, width=double,
               total=double, s=double, t=double, f=double, e=double, q=double, phi=double, nu=double, i=I, j=I, k=I,
               b=I, o=I, a=I, c=I, p=I)
cpdef void learn(double[::1] state, double y, I which, I n, I K, I m, I B, const double[::1] constants,
                 const double[::1] experts, const double[::1] prior, const double[::1] x, const double[::1] law,
                 double[::1] work) noexcept

@cython.locals(x="double[::1]", law="double[::1]", rest="double[::1]", k=I, i=I, v=I, at=I, s=double)
cpdef I forward(const double[::1] Y, const double[::1] E, const I[::1] which, I T, I Q, double[::1] state, I n, I K,
                I m, I B, const double[::1] constants, const double[::1] experts, const double[::1] prior,
                double[::1] tails, double[::1] density, double[::1] work) noexcept

@cython.locals(sign=double, start=double, least=double, most=double, low=double, high=double, step=double, x=double,
               h=double, f=double, k=I, i=I, _=I)
cpdef double quantile(double q, bint upper, I K, const double[::1] experts, const double[::1] law) noexcept

@cython.locals(up=double, t=double, q=double, k=I)
cpdef double upper_tail(double y, double sign, I K, const double[::1] experts, const double[::1] law) noexcept

@cython.locals(x="double[::1]", law="double[::1]", rest="double[::1]", k=I, v=I, at=I, u=double, y=double)
cpdef I backward(const double[::1] q, const double[::1] upper, const I[::1] which, I T, double[::1] state, I n, I K,
                 I m, I B, const double[::1] constants, const double[::1] experts, const double[::1] prior,
                 double[::1] out, double[::1] work) noexcept

@cython.locals(at=I, k=I, s=double)
cpdef void law_tails(const double[::1] Y, I T, I K, I B, const double[::1] experts, const double[::1] law,
                     const double[::1] counts, double[::1] tails, double[::1] density, double[::1] work) noexcept

@cython.locals(at=I, k=I)
cpdef void law_values(const double[::1] q, const double[::1] upper, I T, I K, I B, const double[::1] experts,
                      const double[::1] law, const double[::1] counts, double[::1] out) noexcept
