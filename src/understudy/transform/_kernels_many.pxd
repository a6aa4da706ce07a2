# Types for the compiled build of _kernels_many.py.
cimport cython

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

@cython.locals(last=I, lastt=I, k=I, i=I, j=I, it=I, n=I, o=I, _=I, t=double, e=double, p=double, pt=double,
               G=double, u=double, v=double, r=double, A=double, s=double, w=double, L=double)
cpdef twice run_scalar_many(const double[::1] y, double[::1] out, I steps, I sensors,
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
