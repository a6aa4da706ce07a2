"""The hot loops of the hidden Markov model.

With p the probabilities of the hidden state before a channel of a reading is seen, z_s the score of
the channel under the law of state s, and g_s the log-density of the channel under that law, both
given the channels before::

    tail = sum_s p_s Phi(-+ z_s),    p_s <- p_s exp(g_s) / sum_r p_r exp(g_r)

and after the last channel p <- p A. Arrays are flat, the state innermost. Ordinary Python; the types
for the compiler stand in the `.pxd` of the same name.
"""

import math

ROOT_HALF = 0.7071067811865476  # sqrt(1/2)
LOG_ROOT_2PI = 0.9189385332046727  # log sqrt(2 pi)
INV_ROOT_2PI = 0.3989422804014327  # 1 / sqrt(2 pi)
FAR = 35.0  # from here on a normal tail comes from its asymptotic series, right to the last bit
TINY = 1e-280  # sums of tails below this are formed in logarithms
SMALL = 1e-100  # so are products of probability and likelihood, where the likeliest state is rarer than this
DEEP = 36.0  # scores beyond which a weight that has underflowed may decide
CLEAR = 1e-12  # a tail that is nearer than this part of it to the edge of an atom is decided elsewhere
CLOSE = 1e-8  # a Newton step of this part of the smallest spread leaves an error of its square
PURE = 12  # iterations after which every second one bisects, so that the bracket must close


def log_normal_tail(t):
    """Logarithm of Phi(-t)."""
    if t < FAR:
        return math.log(0.5 * math.erfc(t * ROOT_HALF))
    r = 1.0 / (t * t)
    # 1 - 1/t^2 + 3/t^4 - 15/t^6 + ...
    s = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r * (1.0 - 11.0 * r)))))
    return math.log(s / t) - 0.5 * t * t - LOG_ROOT_2PI


def weigh(G, o, S, p):
    """p_s <- p_s exp(G[o + s]), normalised; 0 if no state with positive probability allows the reading."""
    top = -math.inf
    best = 0
    for s in range(S):
        if p[s] > 0.0 and G[o + s] > top:
            top = G[o + s]
            best = s
    if not (top > -math.inf and top < math.inf):
        return 0
    total = 0.0
    if p[best] > SMALL:
        for s in range(S):
            x = p[s] * math.exp(G[o + s] - top) if p[s] > 0.0 else 0.0
            p[s] = x
            total += x
    else:
        top = -math.inf
        for s in range(S):
            x = math.log(p[s]) + G[o + s] if p[s] > 0.0 else -math.inf
            p[s] = x
            if x > top:
                top = x
        for s in range(S):
            x = math.exp(p[s] - top)
            p[s] = x
            total += x
    for s in range(S):
        p[s] = p[s] / total
    return 1


def move(A, S, p, pi):
    """The next probabilities pi = p A, normalised, so that long gaps do not drift."""
    for s in range(S):
        pi[s] = 0.0
    for r in range(S):
        f = p[r]
        if f > 0.0:
            o = r * S
            for s in range(S):
                pi[s] += f * A[o + s]
    total = 0.0
    for s in range(S):
        total += pi[s]
    for s in range(S):
        pi[s] = pi[s] / total


def forward(G, T, d, S, A, pi, W, work):
    """Probabilities of the states before each channel of each reading, into W (T, d, S); pi moves on.

    G (T, d, S) holds the log-densities; a row that starts with NaN is a missing reading. The channels
    seen so far are weighed at once, so that a state which one of them all but excludes is not lost to
    the next. `work` has room for 2 S numbers. Returns the number of rows done, fewer than T where a
    reading is impossible.
    """
    p = work[:S]
    c = work[S : 2 * S]
    for k in range(T):
        o = k * d * S
        for s in range(S):
            c[s] = 0.0
            p[s] = pi[s]
        there = G[o] == G[o]
        for _ in range(d):
            for s in range(S):
                W[o + s] = p[s]
                p[s] = pi[s]
                c[s] += G[o + s]
            if there and weigh(c, 0, S, p) == 0:
                return k
            o += S
        move(A, S, p, pi)
    return T


def log_tail(W, Z, o, S, sign):
    """Logarithm of sum_s W_s Phi(-sign Z_s), where the sum itself would underflow."""
    top = -math.inf
    total = 0.0
    for s in range(S):
        if W[o + s] > 0.0:
            a = math.log(W[o + s]) + log_normal_tail(sign * Z[o + s]) if sign * Z[o + s] < math.inf else -math.inf
            if a > top:
                total = total * math.exp(top - a) + 1.0
                top = a
            elif a > -math.inf:
                total += math.exp(a - top)
    return top + math.log(total) if total > 0.0 else top


def tails(W, Z, n, S, out):
    """The smaller tail of each of n mixtures: its logarithm if it is the lower one, minus it if the upper one."""
    for r in range(n):
        o = r * S
        low = 0.0
        up = 0.0
        for s in range(S):
            w = W[o + s]
            if w == 0.0:
                continue  # a law that says nothing here may have no score
            t = Z[o + s]
            if t < 0.0:
                q = 0.5 * math.erfc(-t * ROOT_HALF)
                low += w * q
                up += w * (1.0 - q)
            else:
                q = 0.5 * math.erfc(t * ROOT_HALF)
                low += w * (1.0 - q)
                up += w * q
        if low <= up:
            out[r] = math.log(low) if low >= TINY else log_tail(W, Z, o, S, -1.0)
        elif up >= TINY:
            out[r] = -math.log(up)
        elif up < TINY:
            out[r] = -log_tail(W, Z, o, S, 1.0)
        else:
            out[r] = low  # NaN: a missing reading


def gaussian_quantile(p, mu, sd, S, z):
    """The y at which sum_s p_s Phi((y - mu_s) / sd_s) = Phi(z).

    By Newton's method on the logarithm of the smaller tail, inside a bracket that only shrinks: y lies
    between the quantiles of the components.
    """
    sign = 1.0
    if z > 0.0:
        sign = -1.0  # the upper tail is the lower one of the mirror image
        z = -z
    goal = log_normal_tail(-z)
    low = math.inf
    high = -math.inf
    least = math.inf
    x = 0.0
    for s in range(S):
        if p[s] > 0.0:
            q = sign * mu[s] + sd[s] * z
            x += p[s] * q
            if q < low:
                low = q
            if q > high:
                high = q
            if sd[s] < least:
                least = sd[s]
    if not (low < high):
        return sign * low
    if not (x > low and x < high):
        x = 0.5 * low + 0.5 * high
    for i in range(200):
        F = 0.0
        f = 0.0
        for s in range(S):
            if p[s] > 0.0:
                t = (x - sign * mu[s]) / sd[s]
                F += p[s] * (0.5 * math.erfc(-t * ROOT_HALF))
                f += p[s] * (INV_ROOT_2PI * math.exp(-0.5 * t * t)) / sd[s]
        if F >= TINY:
            h = math.log(F) - goal
            f = f / F
        else:
            top = -math.inf
            F = 0.0
            f = 0.0
            for s in range(S):
                if p[s] > 0.0:
                    t = (x - sign * mu[s]) / sd[s]
                    g = log_normal_tail(-t)
                    a = math.log(p[s]) + g
                    # phi(t) / Phi(t)
                    g = math.exp(-0.5 * t * t - LOG_ROOT_2PI - g) / sd[s]
                    if a > top:
                        f = f * math.exp(top - a) + g
                        F = F * math.exp(top - a) + 1.0
                        top = a
                    elif a > -math.inf:
                        f += g * math.exp(a - top)
                        F += math.exp(a - top)
            if not (F > 0.0):
                return math.inf  # beyond double precision
            h = top + math.log(F) - goal
            f = f / F
        if h > 0.0:
            high = x
        elif h < 0.0:
            low = x
        else:
            break
        step = h / f if f > 0.0 else math.inf
        if math.fabs(step) <= CLOSE * least or x - step == x:
            x -= step
            break
        x -= step
        if not (x > low and x < high) or (i >= PURE and i % 2 == 1):
            x = 0.5 * low + 0.5 * high
            if not (x > low and x < high):
                break
    return sign * x


def gaussian_values(z, out, T, d, S, A, pi, M, L, H, work):
    """Readings from scores under Gaussian laws with means M (S, d), factors L (S, d, d) and H = log of their diagonal.

    Rows that start with NaN are missing. `work` has room for 4 S + S d numbers. Returns the number of
    rows done: fewer than T where a reading is not finite, or where a score of a vector is so far out
    that probabilities which have underflowed would matter.
    """
    p = work[:S]
    mu = work[S : 2 * S]
    sd = work[2 * S : 3 * S]
    c = work[3 * S : 4 * S]
    e = work[4 * S : 4 * S + S * d]
    for k in range(T):
        o = k * d
        for s in range(S):
            c[s] = 0.0
            p[s] = pi[s]
        if z[o] == z[o]:
            for l in range(d):
                if d > 1 and math.fabs(z[o + l]) > DEEP:
                    return k
                for s in range(S):
                    r = s * d + l
                    x = M[r]
                    for i in range(l):
                        x += L[r * d + i] * e[s * d + i]
                    mu[s] = x
                    sd[s] = L[r * d + l]
                y = gaussian_quantile(p, mu, sd, S, z[o + l])
                if not (math.fabs(y) < math.inf):
                    return k
                out[o + l] = y
                for s in range(S):
                    x = (y - mu[s]) / sd[s]
                    e[s * d + l] = x
                    c[s] += -0.5 * x * x - H[s * d + l]
                    p[s] = pi[s]
                if weigh(c, 0, S, p) == 0:
                    return k
        else:
            for l in range(d):
                out[o + l] = z[o]
        move(A, S, p, pi)
    return T


def atom_values(z, out, T, S, M, A, pi, P, G, values, work):
    """Readings from scores where every state has atoms: `values` (M,) with probabilities P (M, S) and logarithms G.

    The atoms are added up from the end of the smaller tail. NaN is missing. `work` has room for S
    numbers. Returns the number of rows done: fewer than T where a score is too near to an edge to tell.
    """
    p = work[:S]
    for k in range(T):
        for s in range(S):
            p[s] = pi[s]
        t = z[k]
        if t == t:
            goal = 0.5 * math.erfc(math.fabs(t) * ROOT_HALF)
            slack = CLEAR * (1.0 + t * t) * goal
            if not (goal > TINY):
                return k
            c = 0.0
            i = 0
            for j in range(M):
                i = j if t <= 0.0 else M - 1 - j
                for s in range(S):
                    c += p[s] * P[i * S + s]
                if c >= goal - slack:
                    break
            if not (c > goal + slack):
                return k
            out[k] = values[i]
            if weigh(G, i * S, S, p) == 0:
                return k
        else:
            out[k] = t
        move(A, S, p, pi)
    return T


def forward_rooms(G, R, d, S, A, P, W, bad, work):
    """`forward` for one reading of each of R rooms; row r of P (R, S) moves on. `bad` tells whose is impossible."""
    for r in range(R):
        o = r * d * S
        e = o + d * S
        bad[r] = 1 - forward(G[o:e], 1, d, S, A, P[r * S : (r + 1) * S], W[o:e], work)


def gaussian_rooms(z, out, R, d, S, A, P, M, L, H, bad, work):
    """`gaussian_values` for one score of each of R rooms."""
    for r in range(R):
        o = r * d
        e = o + d
        p = P[r * S : (r + 1) * S]
        bad[r] = 1 - gaussian_values(z[o:e], out[o:e], 1, d, S, A, p, M, L, H, work)


def atom_rooms(z, out, R, S, M, A, P, Q, G, values, bad, work):
    """`atom_values` for one score of each of R rooms, with probabilities Q (M, S) of the atoms."""
    for r in range(R):
        e = r + 1
        bad[r] = 1 - atom_values(z[r:e], out[r:e], 1, S, M, A, P[r * S : e * S], Q, G, values, work)
