# Types for the compiled build of _kernels.py.
cimport cython
from libc cimport math

ctypedef Py_ssize_t I

@cython.locals(total=double, t=double, i=I, j=I, l=I)
cdef double invert(const double[::1] M, double[::1] P, I o, I d, double[::1] K) noexcept

@cython.locals(P="double[::1]", H="double[::1]", M="double[::1]", K="double[::1]", S="double[::1]", m=I, k=I, g=I, o=I,
               at=I, row=I, i=I, j=I, l=I, t=double, total=double)
cpdef double smooth(I n, I d, const I[::1] group, const I[::1] seen, const double[::1] Y, const double[::1] precision,
                    const double[::1] Qi, const double[::1] AQA, const double[::1] QA, const double[::1] Qb,
                    const double[::1] AQb, const double[::1] first, const double[::1] mean, double[::1] x,
                    double[::1] own, double[::1] before, double[::1] cross, double[::1] variance,
                    double[::1] work) noexcept
