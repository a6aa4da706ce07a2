# Types for the compiled build of _kernels_many.py.
cimport cython

ctypedef Py_ssize_t I

@cython.locals(last=I, lastt=I, k=I, i=I, j=I, it=I, n=I, o=I, t=double, e=double,
               G=double, u=double, v=double, r=double, A=double, s=double, w=double, L=double)
cpdef void run_scalar_many(const double[::1] y, double[::1] out, I steps, I sensors,
                           const double[::1] source, double[::1] q, const double[::1] target, double[::1] qt, I index)

@cython.locals(width=I, widtht=I, last=I, lastt=I, k=I, j=I, o=I)
cpdef void run_many(const double[::1] y, double[::1] out, I steps, I sensors, I d,
                    const double[::1] source, I n, double[::1] x, const double[::1] target, I m, double[::1] xt,
                    I index, double[::1] w)

@cython.locals(i=I, j=I, p=I, q=I, s=I, f=double)
cdef void products_many(const double[::1] row, I o, I rows, I columns, I sensors, const double[::1] x, I xo,
                        double[::1] out, I oo) noexcept

@cython.locals(oH=I, og=I, oh=I, oL=I, orr=I, i=I, j=I, p=I, q=I, s=I, f=double)
cdef void score_many(const double[::1] row, I o, I n, I d, I sensors, const double[::1] y, I yo, double[::1] x,
                     double[::1] z, I zo, double[::1] w) noexcept

@cython.locals(oH=I, oA=I, og=I, ob=I, oL=I, wL=I, i=I, p=I, s=I, f=double)
cdef void emit_many(const double[::1] row, I o, I n, I d, I sensors, double[::1] x, double[::1] y, I yo,
                    double[::1] w) noexcept
