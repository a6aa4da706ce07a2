cimport cython
from libc cimport math

cdef double FORBIDDEN
cdef Py_ssize_t SMALL
cdef Py_ssize_t ALL
cdef Py_ssize_t MANY
cdef Py_ssize_t ROUNDS
cdef double CARE
cdef double CLIP
cdef double SPREAD
cdef double STEPS
cdef double TARGET
cdef double UNIT
cdef double ROUNDOFF

@cython.locals(lowest=double, lost=double, t=double, ties=double, i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, least=double, count=Py_ssize_t,
               x=double, weight=double, best=Py_ssize_t, scale=double, f=double)
cpdef int prepare(const double[::1] cost, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double[::1] L,
                  double[::1] column, double[::1] r) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, best=Py_ssize_t)
cpdef void saturated(const double[::1] L, Py_ssize_t m, Py_ssize_t n, double[::1] P) noexcept

@cython.locals(D=double, F=double, V=double, i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, z=double, s=double, e=double,
               f=double, weight=double, x=double)
cpdef inline void evaluate(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] q, double b,
                   double[::1] A, double[::1] c, double[::1] w, double[::1] r) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, l=Py_ssize_t, o=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, c=Py_ssize_t, d=Py_ssize_t,
               s=double, t=double, u=double, v=double, w=double, x=double)
cpdef inline int cholesky(double[::1] H, Py_ssize_t k) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, s=double)
cpdef inline void substitute(const double[::1] H, Py_ssize_t k, double[::1] x) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, l=Py_ssize_t, o=Py_ssize_t, k=Py_ssize_t, t=double)
cdef inline int factor(const double[::1] A, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] root, double[::1] d,
                double[::1] H, double[::1] x, object dense) except -1

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, s=double)
cdef inline int solve(const double[::1] A, Py_ssize_t m, Py_ssize_t n, const double[::1] root, const double[::1] d,
               const double[::1] H, double[::1] x, double[::1] y, object dense) except -1

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, x=double, _=Py_ssize_t)
cpdef double climb(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, Py_ssize_t best, double b,
                   double[::1] c) noexcept

@cython.locals(D=double, F=double, V=double, i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, z=double, s=double, e=double,
               t=double, x=double)
cpdef void spend(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] q, double b,
                 double[::1] w, double[::1] r) noexcept

@cython.locals(low=double, high=double, kl=double, x=double, _=Py_ssize_t)
cpdef double slide(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] q, double b,
                   double target, double tolerance, Py_ssize_t most, double[::1] w, double[::1] r) noexcept

@cython.locals(c="double[::1]", w="double[::1]", nu="double[::1]", v="double[::1]", d="double[::1]", x="double[::1]",
               dq="double[::1]", dnu="double[::1]", u="double[::1]", best="double[::1]", y="double[::1]",
               root="double[::1]", r="double[::1]", I0=double, b=double, care=double, clip=double, tolerance=double, most=Py_ssize_t,
               fixed=bint, lowest=double, ratio=double, beta=double, step=Py_ssize_t, since=Py_ssize_t, D=double, F=double, V=double,
               f=double, t=double, total=double, tau=double, top=double, residual=double, kl=double, gap=double,
               g=double, curvature=double, target=double, length=double, ds=double, corrector=Py_ssize_t,
               j=Py_ssize_t)
cpdef double interior(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double[::1] s,
                      double[::1] q, double[::1] A, double[::1] work, double[::1] H, object dense) except? -1.0

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, largest=Py_ssize_t, left=double, x=double)
cpdef void whole(double[::1] P, Py_ssize_t m, Py_ssize_t n) noexcept

@cython.locals(s=double, k=Py_ssize_t)
cdef inline double divergence(double t) noexcept

@cython.locals(total=double, excess=double, lost=double, i=Py_ssize_t, j=Py_ssize_t, t=double, f=double, s=double,
               mean=double, x=double)
cpdef void information(const double[::1] P, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double[::1] r) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, z=double, e=double, t=double)
cpdef void kernel(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] q, double b,
                 const double[::1] base, double share, double[::1] P) noexcept

@cython.locals(i=Py_ssize_t, l=Py_ssize_t, total=double, t=double)
cpdef int follow(const double[::1] b, Py_ssize_t m, Py_ssize_t n, const double[::1] P, Py_ssize_t j, const double[::1] T,
                 Py_ssize_t o, double[::1] r) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, D=double, s=double)
cpdef double mean_cost(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] P) noexcept

cdef inline double allowance(Py_ssize_t m, Py_ssize_t n, double F, double s) noexcept

@cython.locals(top=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, s=double)
cpdef double bound(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, const double[::1] q, double b,
                   double I0, double[::1] A, double[::1] c, double[::1] w, double[::1] r) noexcept

@cython.locals(c="double[::1]", w="double[::1]", r="double[::1]", I0=double, b=double, total=double, t=double,
               j=Py_ssize_t, x=double, lower=double, rounding=double, share=double, i=Py_ssize_t, _=Py_ssize_t)
cpdef void finish(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double[::1] q, double[::1] s,
                  const double[::1] base, double[::1] A, double[::1] work, double[::1] P) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, d=Py_ssize_t, t=double, u=double,
               x=double, y=double, e=double)
cpdef void prices(const double[::1] B, Py_ssize_t m, Py_ssize_t k, const double[::1] p, const double[::1] q, double[::1] v,
                  double[::1] c) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, l=Py_ssize_t, o=Py_ssize_t, a=Py_ssize_t, b=Py_ssize_t, c=Py_ssize_t, e=Py_ssize_t,
               t=double, u=double, x=double, y=double, w=double, f=double, g=double, h=double)
cpdef void curvature(const double[::1] B, Py_ssize_t m, Py_ssize_t k, const double[::1] p, const double[::1] v,
                     const double[::1] d, double[::1] H) noexcept

@cython.locals(c="double[::1]", d="double[::1]", x="double[::1]", dq="double[::1]", dnu="double[::1]",
               best="double[::1]", v="double[::1]", lowest=double, since=Py_ssize_t, step=Py_ssize_t, total=double,
               tau=double, top=double, residual=double, gap=double, t=double, f=double, target=double, length=double,
               corrector=Py_ssize_t, j=Py_ssize_t)
cpdef double approach(const double[::1] B, Py_ssize_t m, Py_ssize_t k, const double[::1] p, double[::1] q, double[::1] nu,
                      double tolerance, double[::1] s, double[::1] room, double[::1] H) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, l=Py_ssize_t, best=Py_ssize_t)
cpdef Py_ssize_t cover(const double[::1] E, Py_ssize_t m, Py_ssize_t n, const double[::1] p, Py_ssize_t[::1] J,
                       double[::1] near) noexcept

@cython.locals(j=Py_ssize_t, end=Py_ssize_t, best=Py_ssize_t)
cpdef Py_ssize_t wanted(const double[::1] c, Py_ssize_t n, double[::1] q, double least, Py_ssize_t[::1] J, Py_ssize_t k,
                        Py_ssize_t most) noexcept

@cython.locals(B="double[::1]", H="double[::1]", o=Py_ssize_t, x="double[::1]", nu="double[::1]", work="double[::1]",
               tolerance=double, reach=double, gap=double, k=Py_ssize_t, kept=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t,
               l=Py_ssize_t, t=double, f=double, start=double, top=double, turn=Py_ssize_t)
cpdef double settle(const double[::1] E, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double[::1] q, double[::1] v,
                    double[::1] c, double[::1] s, Py_ssize_t[::1] J, double[::1] room) noexcept

@cython.locals(k=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, o=Py_ssize_t, top=Py_ssize_t, q="double[::1]", c="double[::1]",
               v="double[::1]", weight="double[::1]", E="double[::1]", gap=double, F=double, D=double, t=double)
cpdef double at_slope(const double[::1] L, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double b, const double[::1] base,
                      double[::1] s, double[::1] room, Py_ssize_t[::1] J, double[::1] P) noexcept

@cython.locals(k=Py_ssize_t, size=Py_ssize_t, o=Py_ssize_t, s="double[::1]", t="double[::1]", L="double[::1]",
               A="double[::1]", base="double[::1]", q="double[::1]", work="double[::1]", H="double[::1]", total=double,
               i=Py_ssize_t, j=Py_ssize_t, best=Py_ssize_t, b=double, steps=Py_ssize_t)
cpdef tuple at_once(const double[::1] cost, Py_ssize_t m, Py_ssize_t n, const double[::1] p, double I0,
                    double[::1] room, double[::1] P)
