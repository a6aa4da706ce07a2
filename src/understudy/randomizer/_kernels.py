"""The hot loops of the randomizer problem: the interior-point method and its certificate.

Costs stand here as they come from `prepare`: the smallest of each row taken off, divided by the
expected cost of the best constant column, forbidden pairs replaced by `FORBIDDEN`. With q the law of
the pseudo parameter and beta the slope of the curve::

    E_ij = exp(-beta L_ij),   z_i = sum_j q_j E_ij,   A_ij = E_ij / z_i,   P_ij = q_j A_ij
    c_j = sum_i p_i A_ij,   F = -sum_i p_i ln z_i,   D = sum_ij p_i P_ij L_ij

Arrays are flat, rows one after the other. Ordinary Python; the types for the compiler stand in the
`.pxd` of the same name.
"""

import math

FORBIDDEN = 1e300
ALL = 16  # up to this number of columns all are taken at once at a fixed slope
MANY = 128  # columns beyond which a fixed slope is left to LAPACK
ROUNDS = 20  # of columns coming and going

# the first attempt of `interior`: care, clip, spread, most steps; and the relative gap at which it stops
CARE = 0.1
CLIP = 1.0
SPREAD = 0.5
STEPS = 60.0
TARGET = 1e-11
SMALL = 32  # up to this size the Cholesky factor is found here, above it by LAPACK

UNIT = 9007199254740992.0  # 2**53: probabilities are whole numbers of 1/UNIT
ROUNDOFF = 1.1102230246251565e-16  # 2**-53


def limits():
    """(SMALL, FORBIDDEN, MANY), which the compiler keeps to itself."""
    return SMALL, FORBIDDEN, MANY


def first_attempt():
    """(CARE, CLIP, SPREAD, STEPS) and TARGET, likewise."""
    return (CARE, CLIP, SPREAD, STEPS), TARGET


def prepare(cost, m, n, p, L, column, r):
    """Check the costs, shift and scale them into L; the facts found go to r, the error code is returned.

    r = (smallest distortion of all, scale, best constant column or -1, whether row minima tie, position of
    an error). Codes: 0 fine, 1 not a number, 2 negative, 3 a row without an allowed pair, 5 costs too
    small to scale.
    """
    lowest = 0.0
    lost = 0.0
    ties = 0.0
    for j in range(n):
        column[j] = 0.0
    for i in range(m):
        o = i * n
        least = cost[o]
        count = 0
        for j in range(n):
            x = cost[o + j]
            if not (x >= 0.0):
                r[4] = o + j
                return 1 if x != x else 2
            if x < least:
                least = x
                count = 1
            elif x == least:
                count += 1
        weight = p[i]
        if least == math.inf:
            if weight > 0.0:
                r[4] = o
                return 3
            for j in range(n):
                L[o + j] = 0.0
            continue
        if count > 1 and weight > 0.0:
            ties = 1.0
        # each addition with its exact rounding error: an offset of all costs may dwarf what is at stake
        x = weight * least
        t = lowest + x
        lost += (lowest - t) + x if lowest >= x else (x - t) + lowest
        lowest = t
        for j in range(n):
            x = cost[o + j] - least
            L[o + j] = x
            if weight > 0.0:
                column[j] += weight * x
    best = 0
    for j in range(n):
        if column[j] < column[best]:
            best = j
    scale = column[best]
    if not (scale < math.inf):
        best = -1
        scale = 0.0
        for i in range(m * n):
            if L[i] < math.inf and L[i] > scale:
                scale = L[i]
    r[0] = lowest + lost
    r[1] = scale
    r[2] = best
    r[3] = ties
    if scale > 0.0 and scale < 1e-290:
        return 5
    f = 1.0 / scale if scale > 0.0 else 1.0
    for i in range(m * n):
        x = L[i] * f
        L[i] = x if x < FORBIDDEN else FORBIDDEN
    return 0


def saturated(L, m, n, P):
    """The kernel that gives each row its cheapest column, where that is one column."""
    for i in range(m):
        o = i * n
        best = 0
        for j in range(n):
            P[o + j] = 0.0
            if L[o + j] < L[o + best]:
                best = j
        P[o + best] = 1.0


def evaluate(L, m, n, p, q, b, A, c, w, r):
    """A, c and w = dc/dbeta; r = (D, F, V) with V = -dD/dbeta, the mean variance of the costs in a row."""
    D = 0.0
    F = 0.0
    V = 0.0
    for j in range(n):
        c[j] = 0.0
        w[j] = 0.0
    for i in range(m):
        o = i * n
        z = 0.0
        s = 0.0
        for j in range(n):
            e = math.exp(-b * L[o + j])
            A[o + j] = e
            e *= q[j]
            z += e
            s += e * L[o + j]
        if z < 1e-300:  # every column with a cheap pair holds nothing: far from any solution, but no NaN
            z = 1e-300
        s /= z
        f = 1.0 / z
        weight = p[i]
        for j in range(n):
            e = A[o + j] * f
            A[o + j] = e
            e *= weight
            c[j] += e
            x = s - L[o + j]
            e *= x
            w[j] += e
            V += q[j] * e * x
        D += weight * s
        F -= weight * math.log(z)
    r[0] = D
    r[1] = F
    r[2] = V


def cholesky(H, k):
    """Lower Cholesky factor in place; 0 when a pivot is not positive."""
    for j in range(k):
        o = j * k
        s = H[o + j]
        for i in range(j):
            s -= H[o + i] * H[o + i]
        if not (s > 0.0):
            return 0
        s = math.sqrt(s)
        H[o + j] = s
        i = j + 1
        while i + 3 < k:  # four rows side by side: their sums do not wait for each other
            a = i * k
            b = a + k
            c = b + k
            d = c + k
            t = H[a + j]
            u = H[b + j]
            v = H[c + j]
            w = H[d + j]
            for l in range(j):
                x = H[o + l]
                t -= H[a + l] * x
                u -= H[b + l] * x
                v -= H[c + l] * x
                w -= H[d + l] * x
            H[a + j] = t / s
            H[b + j] = u / s
            H[c + j] = v / s
            H[d + j] = w / s
            i += 4
        while i < k:
            a = i * k
            t = H[a + j]
            for l in range(j):
                t -= H[a + l] * H[o + l]
            H[a + j] = t / s
            i += 1
    return 1


def substitute(H, k, x):
    """X <- H^-1 x by its Cholesky factor."""
    for i in range(k):
        s = x[i]
        for j in range(i):
            s -= H[i * k + j] * x[j]
        x[i] = s / H[i * k + i]
    for i in range(k - 1, -1, -1):
        s = x[i]
        for j in range(i + 1, k):
            s -= H[j * k + i] * x[j]
        x[i] = s / H[i * k + i]


def factor(A, m, n, p, root, d, H, x, dense):
    """Factor of sum_i p_i A_ij A_ik + diag d, or for m < n of the m x m matrix behind it (Woodbury).

    With Woodbury d is turned into its reciprocals, which is what `solve` needs. The root is that of p; x is room.
    """
    k = n if n <= m else m
    if k > SMALL:
        return dense(0)
    for i in range(k * k):
        H[i] = 0.0
    if n <= m:
        for j in range(n):
            H[j * n + j] = d[j]
        for i in range(m):
            o = i * n
            for j in range(n):
                t = p[i] * A[o + j]
                for l in range(j + 1):
                    H[j * n + l] += t * A[o + l]
    else:
        for j in range(n):
            d[j] = 1.0 / d[j]
        for i in range(m):
            for j in range(n):
                x[j] = A[i * n + j] * d[j]
            for l in range(i + 1):
                t = 0.0
                for j in range(n):
                    t += x[j] * A[l * n + j]
                H[i * m + l] = root[i] * root[l] * t
            H[i * m + i] += 1.0
    return cholesky(H, k)


def solve(A, m, n, root, d, H, x, y, dense):
    """X <- (sum_i p_i A_ij A_ik + diag d)^-1 x by what `factor` left; y is room for m numbers."""
    k = n if n <= m else m
    if k > SMALL:
        dense(1)
        return 0
    if n <= m:
        substitute(H, n, x)
        return 0
    for j in range(n):
        x[j] *= d[j]
    for i in range(m):
        s = 0.0
        for j in range(n):
            s += A[i * n + j] * x[j]
        y[i] = root[i] * s
    substitute(H, m, y)
    for i in range(m):
        y[i] *= root[i]
    for j in range(n):
        s = 0.0
        for i in range(m):
            s += A[i * n + j] * y[i]
        x[j] -= s * d[j]
    return 0


def climb(L, m, n, p, best, b, c):
    """A slope at which the best constant column no longer stands alone: below it the curve has not begun to fall.

    Column j joins it where sum_i p_i exp(-beta (L_ij - L_i,best)) exceeds 1.
    """
    for _ in range(40):
        for j in range(n):
            c[j] = 0.0
        for i in range(m):
            o = i * n
            for j in range(n):
                x = -b * (L[o + j] - L[o + best])
                if x > 700.0 and p[i] > 0.0:
                    return b
                c[j] += p[i] * math.exp(x)
        for j in range(n):
            if c[j] > 1.0 and j != best:
                return b
        b *= 4.0
    return b


def spend(L, m, n, p, q, b, w, r):
    """To r go (D, F, V) as `evaluate` has them, of the columns in use alone; w is room for n numbers."""
    D = 0.0
    F = 0.0
    V = 0.0
    for i in range(m):
        o = i * n
        z = 0.0
        s = 0.0
        for j in range(n):
            e = q[j] * math.exp(-b * L[o + j]) if q[j] > 0.0 else 0.0
            w[j] = e
            z += e
            s += e * L[o + j]
        if z < 1e-300:
            z = 1e-300
        s /= z
        t = 0.0
        for j in range(n):
            x = s - L[o + j]
            t += w[j] * x * x if w[j] > 0.0 else 0.0
        V += p[i] * (t / z)
        D += p[i] * s
        F -= p[i] * math.log(z)
    r[0] = D
    r[1] = F
    r[2] = V


def slide(L, m, n, p, q, b, target, tolerance, most, w, r):
    """The slope at which KL_q(beta) = F - beta D meets the target, at fixed q: it increases with beta."""
    low = 0.0
    high = math.inf
    for _ in range(most):
        spend(L, m, n, p, q, b, w, r)
        kl = r[1] - b * r[0]
        if kl > target:
            high = b
        else:
            low = b
        x = target - kl
        if (x if x >= 0.0 else -x) <= tolerance * target:
            break
        if r[2] <= 0.0:
            break
        # dKL / d ln beta = beta^2 V
        x = x / (b * b * r[2])
        x = 2.0 if x > 2.0 else -2.0 if x < -2.0 else x
        x = b * math.exp(x)
        if not (low < x < high):
            x = 0.5 * (low + high)
        if x == b:
            break
        b = x
    return b


def interior(L, m, n, p, s, q, A, work, H, dense):
    """Solve the conditions of optimality in (q, nu, ln beta) jointly, Mehrotra's predictor-corrector.

    The saddle function [F + sum q - 1 - I0] / beta is convex in q and concave in 1 / beta. With nu_j the
    multiplier of q_j >= 0, in the units of the costs::

        R = (1 - c) / beta - nu = 0,    q nu = tau -> 0,    g = F + sum q - 1 - beta D - I0 = 0

    s = (I0, beta, care, clip, spread, tolerance, most steps, fixed); beta is written back to s[1]; s[8] tells
    the steps taken and s[9] the D reached. With `fixed` the slope stays and only q is sought. The best q
    found is left in q; returned is the gap ln max c + |I0 - KL|, in units of 1 / beta.
    """
    c = work[:n]
    w = work[n : 2 * n]
    nu = work[2 * n : 3 * n]
    v = work[3 * n : 4 * n]
    d = work[4 * n : 5 * n]
    x = work[5 * n : 6 * n]
    dq = work[6 * n : 7 * n]
    dnu = work[7 * n : 8 * n]
    u = work[8 * n : 9 * n]
    best = work[9 * n : 10 * n]
    y = work[10 * n : 10 * n + m]
    root = work[10 * n + m : 10 * n + 2 * m]
    r = work[10 * n + 2 * m : 10 * n + 2 * m + 3]
    for j in range(m):
        root[j] = math.sqrt(p[j])
    I0 = s[0]
    b = s[1]
    care = s[2]
    clip = s[3]
    tolerance = s[5]
    most = int(s[6])
    fixed = s[7] > 0.0
    lowest = math.inf
    ratio = math.inf
    beta = b
    step = 0
    since = 0
    for j in range(n):
        best[j] = q[j]
    while True:
        evaluate(L, m, n, p, q, b, A, c, w, r)
        D = r[0]
        F = r[1]
        V = r[2]
        if step == 0:
            f = s[4] if b < 1.0 else s[4] / b
            for j in range(n):
                t = (1.0 - c[j]) / b
                nu[j] = (t if t > 0.0 else 0.0) + f
        total = 0.0
        tau = 0.0
        top = 0.0
        residual = 0.0
        for j in range(n):
            total += q[j]
            tau += q[j] * nu[j]
            if c[j] > top:
                top = c[j]
            t = (1.0 - c[j]) / b - nu[j]
            residual += q[j] * (t if t >= 0.0 else -t)
        tau /= n
        kl = F - b * D + math.log(total)
        gap = math.log(top * total) if top > 0.0 else math.inf
        gap = gap if gap > 0.0 else 0.0
        if not fixed:
            gap += I0 - kl if I0 > kl else kl - I0
        if not (gap < math.inf):
            break
        since += 1
        if gap / b < ratio:
            since = 0
            ratio = gap / b
            lowest = gap
            beta = b
            s[9] = D
            for j in range(n):
                best[j] = q[j]
        t = 1.0 if fixed else D
        if ratio <= tolerance * t or lowest <= 2e-15 or step >= most or (since > 4 and ratio < 1e-9 * t) or since > 25:
            break
        # (H + diag d) dq = b (-R + (tau - q nu) / q) + v ds,   v' dq + beta^2 V ds = -g
        g = 0.0 if fixed else F + (total - 1.0) - b * D - I0
        for j in range(n):
            v[j] = (1.0 - c[j]) + b * w[j]
            d[j] = b * nu[j] / q[j]
        if not factor(A, m, n, p, root, d, H, x, dense):
            break
        for j in range(n):
            x[j] = v[j]
        curvature = b * b * V
        if not fixed:
            solve(A, m, n, root, d, H, x, y, dense)
            for j in range(n):
                u[j] = x[j]
                curvature += v[j] * x[j]
        target = 0.0
        length = 1.0
        ds = 0.0
        for corrector in range(2):
            for j in range(n):
                t = target - q[j] * nu[j]
                if corrector == 1:
                    t -= dq[j] * dnu[j]
                dnu[j] = t
                x[j] = b * (t / q[j] + nu[j]) - (1.0 - c[j])
            solve(A, m, n, root, d, H, x, y, dense)
            ds = 0.0
            if not fixed and curvature > 0.0:
                t = -g
                for j in range(n):
                    t -= v[j] * x[j]
                ds = t / curvature
                ds = clip if ds > clip else -clip if ds < -clip else ds
            length = 1.0
            f = 1.0 if corrector == 0 else 0.99 if tau * n > 0.01 else 1.0 - tau * n
            for j in range(n):
                t = x[j] if fixed else x[j] + u[j] * ds
                dq[j] = t
                dnu[j] = (dnu[j] - nu[j] * t) / q[j]
                if t < 0.0 and -f * q[j] / t < length:
                    length = -f * q[j] / t
                if dnu[j] < 0.0 and -f * nu[j] / dnu[j] < length:
                    length = -f * nu[j] / dnu[j]
            if corrector == 0:
                t = 0.0
                for j in range(n):
                    t += (q[j] + length * dq[j]) * (nu[j] + length * dnu[j])
                t /= n
                t = t / tau if t > 0.0 else 0.0
                target = t * t * t * tau
                # tau must not outrun the residuals
                t = (g if g >= 0.0 else -g) / b
                t = care * (residual if residual > t else t) / n
                t = tau if tau < t else t
                target = t if t > target else target
        for j in range(n):
            q[j] += length * dq[j]
            nu[j] += length * dnu[j]
        b *= math.exp(length * ds)
        step += 1
    for j in range(n):
        q[j] = best[j]
    s[1] = beta
    s[8] = step
    return lowest


def whole(P, m, n):
    """Round each row to whole numbers of 2^-53 that sum to one exactly; the largest takes what is left."""
    for i in range(m):
        o = i * n
        left = UNIT  # counted down, so that it stays within what a float holds exactly
        largest = 0
        for j in range(n):
            x = P[o + j]
            if x == 0.0:
                continue
            x = math.floor(x * UNIT + 0.5)
            P[o + j] = x
            left -= x
            if x > P[o + largest]:
                largest = j
        P[o + largest] += left
        for j in range(n):
            P[o + j] *= ROUNDOFF


def divergence(t):
    """(1 + t) ln(1 + t) - t without cancellation."""
    if t <= -1.0:
        return 1.0
    if t > 0.15 or t < -0.15:
        return (1.0 + t) * math.log1p(t) - t
    # sum over k >= 2 of (-t)^k / (k (k - 1))
    s = 0.0
    for k in range(22, 1, -1):
        s = 1.0 / (k * (k - 1)) - t * s
    return t * t * s


def information(P, m, n, p, r):
    """I = sum p_i [P ln(P / r) - P + r] with r = p P, every term positive and found without cancellation.

    The prior may sum to one up to rounding only. r[0] is I for the prior normalised; r[1] for the
    prior as it is, sum p P ln(P / r): they differ by the rounding of its sum, no more.
    """
    total = 0.0
    excess = -1.0  # sum of the prior less one: each addition with its exact rounding error
    lost = 0.0
    for i in range(m):
        f = excess + p[i]
        t = f - excess
        lost += (excess - (f - t)) + (p[i] - t)
        excess = f
        total += p[i]
    excess += lost
    s = 0.0
    lost = 0.0
    for j in range(n):
        mean = 0.0
        for i in range(m):
            mean += p[i] * P[i * n + j]
        mean /= total
        if mean <= 0.0:
            continue
        # P - r to the last bit: differences from a rounded mean are exact where it matters
        f = 0.0
        for i in range(m):
            f += p[i] * (P[i * n + j] - mean)
        f /= total
        for i in range(m):
            if p[i] > 0.0:
                t = ((P[i * n + j] - mean) - f) / (mean + f)
                t = p[i] * (mean + f) * divergence(t) - lost
                x = s + t
                lost = (x - s) - t
                s = x
    r[0] = s / total
    r[1] = s - total * math.log1p(excess)


def kernel(L, m, n, p, q, b, base, share, P):
    """P_ij = q_j E_ij / z_i, mixed with a share of the base kernel, in whole numbers of 2^-53."""
    for i in range(m):
        o = i * n
        z = 0.0
        for j in range(n):
            e = q[j] * math.exp(-b * L[o + j]) if q[j] > 0.0 else 0.0
            P[o + j] = e
            z += e
        t = share
        if z < 1e-300:  # a row that never occurs, or what is left of it
            t = 1.0
            z = 1.0
        for j in range(n):
            P[o + j] = (1.0 - t) * (P[o + j] / z) + t * base[o + j]
    whole(P, m, n)


def follow(b, m, n, P, j, T, o, r):
    """The belief after draw j (none if negative) and a step by the transition matrix at T[o]; 0 if j cannot come.

    r is room for 2 m numbers, the first m of which are the belief.
    """
    total = 0.0
    for i in range(m):
        t = b[i] * P[i * n + j] if j >= 0 else b[i]
        r[m + i] = t
        total += t
        r[i] = 0.0
    if not (total > 0.0):
        return 0
    for i in range(m):
        t = r[m + i] / total
        for l in range(m):
            r[l] += t * T[o + i * m + l]
    total = 0.0
    for i in range(m):
        total += r[i]
    for i in range(m):
        r[i] /= total
    return 1


def mean_cost(L, m, n, p, P):
    """Sum p_i P_ij L_ij; a forbidden pair that is not drawn costs nothing."""
    D = 0.0
    for i in range(m):
        s = 0.0
        for j in range(n):
            s += P[i * n + j] * L[i * n + j]
        D += p[i] * s
    return D


def allowance(m, n, F, s):
    """What rounding makes of F - ln max c.

    Each E has a relative error of (beta L + 1) u, each sum of n terms one of n u, u the unit roundoff, and F, a sum
    of m terms, one of m u F besides. s is beta times the means of L that this makes of F and of the largest c, and all
    is taken twice over.
    """
    return 2.0 * ROUNDOFF * (m + 2.0 * n + 10.0 + m * math.fabs(F) + s)


def bound(L, m, n, p, q, b, I0, A, c, w, r):
    """D* >= (F - ln max c - I0) / beta for any q that sums to one, less an allowance for rounding, left in r[2]."""
    evaluate(L, m, n, p, q, b, A, c, w, r)
    top = 0
    for j in range(n):
        if c[j] > c[top]:
            top = j
    s = 0.0
    for i in range(m):
        s += p[i] * A[i * n + top] * L[i * n + top]
    s = r[0] + 2.0 * s + w[top]
    r[2] = allowance(m, n, r[1], b * (s if s > 0.0 else 0.0)) / b
    if not (c[top] > 0.0):
        return 0.0
    return (r[1] - math.log(c[top]) - I0) / b - r[2]


def finish(L, m, n, p, q, s, base, A, work, P):
    """The kernel that will be sampled, feasible to the last bit, and the proof of how good it is.

    s = (I0, beta, ...) as in `interior`. Columns that hold next to nothing are dropped, beta slides at
    fixed q until KL_q meets the budget, and what rounding still overspends is mixed away with the base
    kernel. To s[2:6] go D of the kernel, a lower bound of D*, I of the kernel, and how much of the gap is
    rounding.
    """
    c = work[:n]
    w = work[n : 2 * n]
    r = work[2 * n : 2 * n + 3]
    I0 = s[0]
    b = s[1]
    total = 0.0
    for j in range(n):
        total += q[j]
    for j in range(n):
        q[j] /= total
    lower = bound(L, m, n, p, q, b, I0, A, c, w, r)
    rounding = r[2]
    total = 0.0
    for j in range(n):
        # idle: complementary to a slack that is far larger
        if q[j] < 1e-9 * (1.0 - c[j]):
            q[j] = 0.0
        total += q[j]
    for j in range(n):
        q[j] /= total
    b = slide(L, m, n, p, q, b, I0 * (1.0 - 6e-15), 1e-15, 40, w, r)
    t = bound(L, m, n, p, q, b, I0, A, c, w, r)
    lower = t if t > lower else lower
    share = 0.0
    for _ in range(60):
        kernel(L, m, n, p, q, b, base, share, P)
        information(P, m, n, p, r)
        x = r[0] if r[0] > r[1] else r[1]
        if x <= I0 * (1.0 - 4e-15):
            break
        t = 2.0 * (x - I0 * (1.0 - 6e-15)) / x
        share = t if share == 0.0 else (2.0 * share if 2.0 * share > t else t)
        if share >= 1.0:
            for i in range(m * n):
                P[i] = base[i]
            information(P, m, n, p, r)
            break
    s[1] = b
    s[2] = mean_cost(L, m, n, p, P)
    s[3] = lower
    s[4] = r[0]
    s[5] = rounding + 1e-14 * I0 / b


def prices(B, m, k, p, q, v, c):
    """v_i = 1 / z_i with z = B q, and c_j = sum_i p_i v_i B_ij; four rows at a time, so m is a multiple of four."""
    for j in range(k):
        c[j] = 0.0
    for i in range(0, m, 4):
        o = i * k
        a = o + k
        b = a + k
        d = b + k
        t = 0.0
        u = 0.0
        x = 0.0
        y = 0.0
        for j in range(k):
            e = q[j]
            t += B[o + j] * e
            u += B[a + j] * e
            x += B[b + j] * e
            y += B[d + j] * e
        # a row out of reach of all columns that hold anything: far from any solution, but no NaN
        t = 1.0 / (t if t > 1e-140 else 1e-140)
        u = 1.0 / (u if u > 1e-140 else 1e-140)
        x = 1.0 / (x if x > 1e-140 else 1e-140)
        y = 1.0 / (y if y > 1e-140 else 1e-140)
        v[i] = t
        v[i + 1] = u
        v[i + 2] = x
        v[i + 3] = y
        t *= p[i]
        u *= p[i + 1]
        x *= p[i + 2]
        y *= p[i + 3]
        for j in range(k):
            c[j] += t * B[o + j] + u * B[a + j] + x * B[b + j] + y * B[d + j]


def curvature(B, m, k, p, v, d, H):
    """The lower half of sum_i p_i v_i^2 B_ij B_il + diag d; m is a multiple of four."""
    for i in range(k * k):
        H[i] = 0.0
    for j in range(k):
        H[j * k + j] = d[j]
    for i in range(0, m, 4):
        o = i * k
        a = o + k
        b = a + k
        c = b + k
        w = p[i] * v[i] * v[i]
        f = p[i + 1] * v[i + 1] * v[i + 1]
        g = p[i + 2] * v[i + 2] * v[i + 2]
        h = p[i + 3] * v[i + 3] * v[i + 3]
        for j in range(k):
            t = w * B[o + j]
            u = f * B[a + j]
            x = g * B[b + j]
            y = h * B[c + j]
            e = j * k
            for l in range(j + 1):
                H[e + l] += t * B[o + l] + u * B[a + l] + x * B[b + l] + y * B[c + l]


def approach(B, m, k, p, q, nu, tolerance, s, room, H):
    """The method of `interior` at a fixed slope, from the q and nu given to a gap ln max c of `tolerance`.

    q and nu are left where it stopped, so that it may go on; s[8] counts the steps. Where it gets no further,
    the best q found is left. Returned is the gap over the columns of B.
    """
    c = room[:k]
    d = room[k : 2 * k]
    x = room[2 * k : 3 * k]
    dq = room[3 * k : 4 * k]
    dnu = room[4 * k : 5 * k]
    best = room[5 * k : 6 * k]
    v = room[6 * k : 6 * k + m]
    lowest = math.inf
    since = 0
    step = 0
    for j in range(k):
        best[j] = q[j]
    while True:
        prices(B, m, k, p, q, v, c)
        total = 0.0
        tau = 0.0
        top = 0.0
        residual = 0.0
        for j in range(k):
            total += q[j]
            tau += q[j] * nu[j]
            if c[j] > top:
                top = c[j]
            t = (1.0 - c[j]) - nu[j]
            residual += q[j] * (t if t >= 0.0 else -t)
        top *= total
        if not (0.0 < top < math.inf):
            break
        gap = math.log(top) if top > 1.0 else 0.0
        since += 1
        if gap < lowest:
            since = 0
            lowest = gap
            if gap <= tolerance:
                s[8] += step
                return gap
            for j in range(k):
                best[j] = q[j]
        if step >= 60 or since > 25 or (since > 1 and lowest < 1e-11):
            break
        for j in range(k):
            d[j] = nu[j] / q[j]
        curvature(B, m, k, p, v, d, H)
        if not cholesky(H, k):
            break
        # (H + diag d) dq = -(1 - c - nu) + (tau - q nu) / q
        target = 0.0
        length = 1.0
        for corrector in range(2):
            for j in range(k):
                t = target - q[j] * nu[j]
                if corrector == 1:
                    t -= dq[j] * dnu[j]
                dnu[j] = t
                x[j] = t / q[j] + nu[j] - (1.0 - c[j])
            substitute(H, k, x)
            length = 1.0
            f = 1.0 if corrector == 0 else 0.99 if tau > 0.01 else 1.0 - tau
            for j in range(k):
                t = x[j]
                dq[j] = t
                dnu[j] = (dnu[j] - nu[j] * t) / q[j]
                if t < 0.0 and -f * q[j] / t < length:
                    length = -f * q[j] / t
                if dnu[j] < 0.0 and -f * nu[j] / dnu[j] < length:
                    length = -f * nu[j] / dnu[j]
            if corrector == 0:
                t = 0.0
                for j in range(k):
                    t += (q[j] + length * dq[j]) * (nu[j] + length * dnu[j])
                t = t / tau if t > 0.0 else 0.0
                target = t * t * t * tau / k
                # tau must not outrun the residuals
                t = 0.1 * residual / k
                t = tau / k if tau / k < t else t
                target = t if t > target else target
        for j in range(k):
            q[j] += length * dq[j]
            nu[j] += length * dnu[j]
        step += 1
    s[8] += step
    for j in range(k):
        q[j] = best[j]
    return lowest


def cover(E, m, n, p, J, near):
    """Columns so that each row that occurs is cheap in one of them, E_ij > 0.7; their count, MANY + 1 if too many."""
    k = 0
    for i in range(m):
        near[i] = 0.0
    for i in range(m):
        if p[i] > 0.0 and near[i] < 0.7:
            if k == MANY:
                return k + 1
            best = 0
            for j in range(n):
                if E[i * n + j] > E[i * n + best]:
                    best = j
            J[k] = best
            k += 1
            for l in range(m):
                if E[l * n + best] > near[l]:
                    near[l] = E[l * n + best]
    return k


def wanted(c, n, q, least, J, k, most):
    """Columns outside the first k of J that cost too little, c_j > least; peaks among neighbours, the dearest first.

    Columns inside have q_j > 0. They are written behind the k, `most` at most; the count of all is returned.
    """
    end = k + most
    while k < end:
        best = -1
        for j in range(n):
            if not (c[j] > least) or q[j] != 0.0 or (best >= 0 and c[j] <= c[best]):
                continue
            # neighbours are often alike: one of them at a time
            if (j > 0 and q[j - 1] <= 0.0 and c[j - 1] > c[j]) or (j < n - 1 and q[j + 1] <= 0.0 and c[j + 1] > c[j]):
                continue
            best = j
        if best < 0:
            break
        J[k] = best
        q[best] = -1.0  # so that it is seen once
        k += 1
    return k


def settle(E, m, n, p, q, v, c, s, J, room):
    """The law q that is best at a fixed slope, E = exp(-beta L): min of -sum_i p_i ln (E q)_i over q.

    Solved on a few columns by `approach`; those outside that cost too little come in, those that idle go, and the
    method goes on from where it was. m is a multiple of four (rows of no weight fill it up). s[5] is the gap wanted,
    s[8] tells the steps. J is room for k positions and `room` for m k + k k + 8 k + m numbers, k being the smaller of n
    and MANY. Prices of all columns are left in v and c. Returned is the gap ln max c, infinite if more than MANY
    columns are needed.
    """
    k = n if n < MANY else MANY
    o = m * k + k * k
    B = room[: m * k]
    H = room[m * k : o]
    x = room[o : o + k]
    nu = room[o + k : o + 2 * k]
    work = room[o + 2 * k :]
    tolerance = s[5]
    reach = tolerance
    start = 0.5
    gap = math.inf
    s[8] = 0.0
    if n <= ALL:
        k = n
        for j in range(n):
            J[j] = j
    else:
        k = cover(E, m, n, p, J, v)
        if k > MANY:
            return gap
        if k < n:
            reach = 1e-3
    for j in range(k):
        x[j] = 1.0 / k
    for turn in range(ROUNDS):
        for i in range(m):
            for j in range(k):
                B[i * k + j] = E[i * n + J[j]]
        if start > 0.0:
            prices(B, m, k, p, x, v, c)
            for j in range(k):
                t = 1.0 - c[j]
                nu[j] = (t if t > 0.0 else 0.0) + start
        approach(B, m, k, p, x, nu, reach, s, work, H)
        t = 0.0
        for j in range(k):
            t += x[j]
        for j in range(n):
            q[j] = 0.0
        for j in range(k):
            q[J[j]] = x[j] / t
        prices(E, m, n, p, q, v, c)
        top = 0.0
        for j in range(n):
            if c[j] > top:
                top = c[j]
        gap = math.log(top) if top > 1.0 else 0.0
        if gap <= tolerance or (k == n and reach <= tolerance):
            break
        # the idle ones go, complementary to a slack that is far larger; not for ever, or some would come and go
        kept = 0
        for j in range(k):
            l = J[j]
            if q[l] >= 1e-3 * (1.0 - c[l]) or turn > 3:
                J[kept] = l
                x[kept] = q[l]
                nu[kept] = nu[j]
                kept += 1
        i = kept if kept > 8 else 8
        k = wanted(c, n, q, 1.0 + tolerance, J, kept, i if i < MANY - kept else MANY - kept)
        start = 0.0
        if k > kept:
            t = math.sqrt(gap) if gap < 0.01 else 0.1
            for j in range(k):
                f = (1.0 - t) * x[j] if j < kept else t / (k - kept)
                x[j] = f if f > 0.01 * t / k else 0.01 * t / k
            start = 0.2 * t
            t = 0.1 * gap
            reach = t if t < reach else reach
            reach = reach if reach > tolerance else tolerance
        elif reach <= tolerance:
            break
        else:
            reach = tolerance
    return gap


def at_slope(L, m, n, p, b, base, s, room, J, P):
    """The kernel that is best at a fixed slope, in one call; the gap of `settle` is returned.

    `base` is the kernel of rows that no used column is allowed to. To s[3] goes a lower bound of I + beta D over all
    kernels, an allowance for rounding taken off, which goes to s[4]. Room is for 2 n + 2 k + k n numbers
    and those of `settle`, k being m rounded up to a multiple of four.
    """
    k = (m + 3) // 4 * 4
    q = room[:n]
    c = room[n : 2 * n]
    v = room[2 * n : 2 * n + k]
    o = 2 * n + 2 * k
    weight = room[2 * n + k : o]
    E = room[o : o + k * n]
    for i in range(k):
        weight[i] = p[i] if i < m else 0.0
    for i in range(m * n):
        E[i] = math.exp(-b * L[i])
    for i in range(m * n, k * n):
        E[i] = 1.0
    gap = settle(E, k, n, weight, q, v, c, s, J, room[o + k * n :])
    if not (gap < math.inf):
        return gap
    top = 0
    for j in range(n):
        if c[j] > c[top]:
            top = j
    # F - ln max c, and what rounding makes of it: see `bound`
    F = 0.0
    D = 0.0
    for i in range(m):
        o = i * n
        t = 0.0
        for j in range(n):
            t += q[j] * E[o + j] * L[o + j]
        t *= v[i]
        D += p[i] * t
        D += p[i] * v[i] * E[o + top] * (L[o + top] + t)
        F += p[i] * math.log(v[i])
    s[4] = allowance(m, n, F, b * D)
    s[3] = F - math.log(c[top]) - s[4]
    t = 0.0
    for j in range(n):
        # idle: complementary to a slack that is far larger
        if q[j] < 1e-9 * (1.0 - c[j]):
            q[j] = 0.0
        t += q[j]
    for j in range(n):
        q[j] /= t
    kernel(L, m, n, p, q, b, base, 0.0, P)
    return gap


def at_once(cost, m, n, p, I0, room, P):
    """All of it in one call, for small problems without ties and with a column that is allowed to all.

    Room is for 3 m n + 11 n + 2 m + 18 + k k numbers. Returned are beta, what `finish` leaves in s[2:6], the steps,
    and lowest and scale as `prepare` has them; nothing where the problem needs more care.
    """
    k = n if n <= m else m
    size = m * n
    s = room[:10]
    t = room[10:15]
    L = room[15 : 15 + size]
    A = room[15 + size : 15 + 2 * size]
    base = room[15 + 2 * size : 15 + 3 * size]
    o = 15 + 3 * size
    q = room[o : o + n]
    work = room[o + n : o + 11 * n + 2 * m + 3]
    H = room[o + 11 * n + 2 * m + 3 :]
    total = 0.0
    for i in range(m):
        if not (p[i] >= 0.0):
            return None
        total += p[i]
    total -= 1.0
    if not (-2e-16 * m < total < 2e-16 * m) or k > SMALL:
        return None
    if prepare(cost, m, n, p, L, work, t) != 0 or t[1] <= 0.0 or t[2] < 0.0 or t[3] > 0.0:
        return None
    best = int(t[2])
    # without ties the cheapest columns tell sum -r ln r, r their law: whether that can be paid, before looking closely
    saturated(L, m, n, P)
    total = 0.0
    for j in range(n):
        b = 0.0
        for i in range(m):
            b += p[i] * P[i * n + j]
        if b > 0.0:
            total -= b * math.log(b)
    if total <= I0 * (1.0 + 1e-9):
        information(P, m, n, p, work)
    else:
        work[0] = work[1] = math.inf
    if work[0] <= I0 * (1.0 - 4e-15) and work[1] <= I0 * (1.0 - 4e-15):
        return math.inf, 0.0, 0.0, work[0], 0.0, 0, t[0], t[1]
    for i in range(size):
        base[i] = 0.0
    for i in range(m):
        base[i * n + best] = 1.0
    for j in range(n):
        q[j] = 1.0 / n
    s[0] = I0
    s[2] = CARE
    s[3] = CLIP
    s[4] = SPREAD
    s[5] = TARGET
    s[6] = STEPS
    s[7] = 0.0
    b = slide(L, m, n, p, q, 1.0, I0, 0.1, 8, work[:n], work[n : n + 3])
    s[1] = climb(L, m, n, p, best, I0 if I0 > b else b, work)
    interior(L, m, n, p, s, q, A, work, H, None)
    steps = int(s[8])
    finish(L, m, n, p, q, s, base, A, work, P)
    return s[1], s[2], s[3], s[4], s[5], steps, t[0], t[1]
