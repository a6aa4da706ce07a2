# Types for the compiled build of _kernels_hidden.py.
cimport cython
from libc cimport math

ctypedef Py_ssize_t I

cdef double ROOT_HALF
cdef double LOG_ROOT_2PI
cdef double INV_ROOT_2PI
cdef double FAR
cdef double TINY
cdef double SMALL
cdef double DEEP
cdef double CLEAR
cdef double CLOSE
cdef I PURE

@cython.locals(r=double, s=double)
cpdef inline double log_normal_tail(double t) noexcept

@cython.locals(top=double, best=I, s=I, total=double, x=double)
cpdef inline int weigh(const double[::1] G, I o, I S, double[::1] p) noexcept

@cython.locals(r=I, s=I, o=I, f=double, total=double)
cpdef inline void move(const double[::1] A, I S, const double[::1] p, double[::1] pi) noexcept

@cython.locals(p="double[::1]", c="double[::1]", k=I, o=I, s=I, _=I, there=bint)
cpdef I forward(const double[::1] G, I T, I d, I S, const double[::1] A, double[::1] pi, double[::1] W,
                double[::1] work) noexcept

@cython.locals(top=double, total=double, s=I, a=double)
cdef double log_tail(const double[::1] W, const double[::1] Z, I o, I S, double sign) noexcept

@cython.locals(r=I, o=I, s=I, low=double, up=double, w=double, t=double, q=double)
cpdef void tails(const double[::1] W, const double[::1] Z, I n, I S, double[::1] out) noexcept

@cython.locals(sign=double, goal=double, low=double, high=double, least=double, x=double, s=I, q=double, i=I, F=double,
               f=double, t=double, h=double, top=double, g=double, a=double, step=double)
cpdef double gaussian_quantile(const double[::1] p, const double[::1] mu, const double[::1] sd, I S, double z) noexcept

@cython.locals(p="double[::1]", mu="double[::1]", sd="double[::1]", c="double[::1]", e="double[::1]", k=I, o=I, s=I,
               l=I, r=I, i=I, x=double, y=double)
cpdef I gaussian_values(const double[::1] z, double[::1] out, I T, I d, I S, const double[::1] A, double[::1] pi,
                        const double[::1] M, const double[::1] L, const double[::1] H, double[::1] work) noexcept

@cython.locals(p="double[::1]", k=I, s=I, i=I, j=I, t=double, goal=double, slack=double, c=double)
cpdef I atom_values(const double[::1] z, double[::1] out, I T, I S, I M, const double[::1] A, double[::1] pi,
                    const double[::1] P, const double[::1] G, const double[::1] values, double[::1] work) noexcept

@cython.locals(r=I, o=I, e=I)
cpdef void forward_rooms(const double[::1] G, I R, I d, I S, const double[::1] A, double[::1] P, double[::1] W,
                         I[::1] bad, double[::1] work) noexcept

@cython.locals(r=I, o=I, e=I, p="double[::1]")
cpdef void gaussian_rooms(const double[::1] z, double[::1] out, I R, I d, I S, const double[::1] A, double[::1] P,
                          const double[::1] M, const double[::1] L, const double[::1] H, I[::1] bad,
                          double[::1] work) noexcept

@cython.locals(r=I, e=I)
cpdef void atom_rooms(const double[::1] z, double[::1] out, I R, I S, I M, const double[::1] A, double[::1] P,
                      const double[::1] Q, const double[::1] G, const double[::1] values, I[::1] bad,
                      double[::1] work) noexcept
