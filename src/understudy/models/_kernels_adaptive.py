"""Hot loops of adaptive models; types for the compiled build are in ``_kernels_adaptive.pxd``.

Only + - * / and square roots in a fixed order, so that compiled and plain give the same bits. That is enough because
the degrees of freedom of the Student-t laws are even: then density and tails are algebraic functions.

A state is one flat array of doubles: a head (`RUN` ... `HEAD`), then for each value its block: K weights, for each
expert coefficients (n), their covariance (n, n) and the noise variance; then for each value the counts of the second
stage. `constants`, `experts`, `prior` and `stage` are the tables that the model makes of its parameters.
"""

import math

# The head of a state
RUN = 0  # readings in a row
LABEL = 1  # value of the last reading, -1 before the first
DECAY = 2  # the two exponentials of the time since the switch
LAST = 4  # the last reading
STEPS = 5  # the last six increments, the latest first
RECENT = 11  # 2 u - 1 of the last four scores, the latest first
HEAD = 15

WINDOW = 6  # increments whose mean is a regressor

# constants
CENTRE = 0
SPREAD = 1  # unit of the level
UNIT = 2  # unit of increments
RATE = 3  # factors of the two exponentials a step
SHARE = 5
FLOOR = 6  # variance that every squared residual has besides, in units of increments
CELL = 7  # half the width of a cell, 0 where readings are continuous
START = 8  # location and scale of the first reading
ORDER = 10  # increments that are regressors one by one
LEARNS = 11
REFILL = 12  # readings in a row before anything is learned
COUNTED = 13  # most counts of a cell of the second stage
MIDDLE = 14  # edges of its features
CONSTANTS = 19

# experts, each
PHI = 0  # factor of coefficients towards their prior
HALF = 1  # half the degrees of freedom
HEIGHT = 2  # density at zero
WEIGHT = 3  # weight beforehand
EXPERT = 4

PULL = 0.4  # how much of its prior the noise variance is given back, against one new residual
WIDEST = 100.0  # noise variance is at most so many times its prior
FARTHEST = 8.0  # regressors are clipped here, in their units
TINY = 1e-290


def student_tail(t, half):
    """The upper tail of Student's t with 2 * half degrees of freedom, t >= 0."""
    nu = 2.0 * half
    r = nu + t * t
    x = nu / r
    s = t / math.sqrt(r)
    m = int(half)
    c = 1.0
    total = 0.0
    # 1 - F = (1 - s sum_{j < m} c_j x^j) / 2 with c_j = 1 3 .. (2j - 1) / (2 4 .. 2j)
    for j in range(m):
        total += c
        c = c * x * (2.0 * j + 1.0) / (2.0 * j + 2.0)
    total = 0.5 * (1.0 - s * total)
    if total > 1e-3:
        return total
    # far out the difference has few digits: the rest of the same series, which is 1 / s as a whole
    total = 0.0
    j = m
    while c > 1e-18 * total:
        total += c
        c = c * x * (2.0 * j + 1.0) / (2.0 * j + 2.0)
        j += 1
    return 0.5 * s * total


def student_density(t, half, height):
    """The density of Student's t with 2 * half degrees of freedom."""
    nu = 2.0 * half
    x = nu / (nu + t * t)
    f = height * math.sqrt(x)
    for _ in range(int(half)):
        f *= x
    return f


def block_size(n, K):
    """Numbers of the block of one value."""
    return K * (n + n * n + 2)


def prepare(state, which, n, K, constants, experts, prior, x, law):
    """Regressors x (n,) of the next reading, and weight, location, scale of each expert into law (3 K)."""
    run = state[RUN]
    if run == 0.0:
        for k in range(K):
            law[k] = experts[k * EXPERT + WEIGHT]
            law[K + k] = constants[START]
            law[2 * K + k] = constants[START + 1]
        return
    p = int(constants[ORDER])
    unit = constants[UNIT]
    x[0] = 1.0
    x[1] = (state[LAST] - constants[CENTRE]) / constants[SPREAD]
    for i in range(p):
        x[2 + i] = state[STEPS + i] / unit
    there = int(run) - 1
    if there > WINDOW:
        there = WINDOW
    s = 0.0
    for i in range(there):
        s += state[STEPS + i]
    x[2 + p] = s / there / unit if there > 0 else 0.0
    for i in range(1, 3 + p):
        if x[i] > FARTHEST:
            x[i] = FARTHEST
        elif x[i] < -FARTHEST:
            x[i] = -FARTHEST
    if state[LABEL] == which:
        x[3 + p] = state[DECAY] * constants[RATE]
        x[4 + p] = state[DECAY + 1] * constants[RATE + 1]
    else:
        x[3 + p] = 1.0
        x[4 + p] = 1.0
    o = HEAD + which * block_size(n, K)
    w = o
    o += K
    for k in range(K):
        mean = 0.0
        q = 1.0
        for i in range(n):
            mean += state[o + i] * x[i]
            s = 0.0
            for j in range(n):
                s += state[o + n + i * n + j] * x[j]
            q += x[i] * s
        law[k] = state[w + k]
        law[K + k] = state[LAST] + unit * mean
        law[2 * K + k] = unit * math.sqrt(q * state[o + n + n * n])
        o += n + n * n + 1


def mixture_tails(y, K, experts, law, out):
    """Lower and upper tail of the mixture at y into out[0], out[1]; both keep their digits where they are small."""
    low = 0.0
    up = 0.0
    for k in range(K):
        t = (y - law[K + k]) / law[2 * K + k]
        if t < 0.0:
            q = student_tail(-t, experts[k * EXPERT + HALF])
            low += law[k] * q
            up += law[k] * (1.0 - q)
        else:
            q = student_tail(t, experts[k * EXPERT + HALF])
            low += law[k] * (1.0 - q)
            up += law[k] * q
    out[0] = low
    out[1] = up


def mixture_density(y, K, experts, law):
    """Density of the mixture at y."""
    f = 0.0
    for k in range(K):
        t = (y - law[K + k]) / law[2 * K + k]
        f += law[k] * student_density(t, experts[k * EXPERT + HALF], experts[k * EXPERT + HEIGHT]) / law[2 * K + k]
    return f


def find_cell(state, which, n, K, m, B, constants, x):
    """Where the counts (B,) of the cell of the second stage begin in which the next score lies; -1 without one."""
    if B == 0 or state[RUN] < constants[REFILL]:
        return -1
    size = 0.0
    for i in range(4):
        size += math.fabs(state[RECENT + i])
    drift = state[RECENT] + state[RECENT + 1] + state[RECENT + 2]
    c = 0
    if size > constants[MIDDLE]:
        c += 1
    if size > constants[MIDDLE + 1]:
        c += 1
    c *= 3
    if drift > constants[MIDDLE + 2]:
        c += 1
    if drift > constants[MIDDLE + 3]:
        c += 1
    c *= 2
    if x[n - 1] > constants[MIDDLE + 4]:
        c += 1
    return HEAD + m * block_size(n, K) + (which * 18 + c) * B


def bend(low, up, state, at, B, out):
    """Tails after the second stage, whose counts (B,) begin at `at` (-1: there is none). Returns the slope."""
    out[0] = low
    out[1] = up
    if at < 0:
        return 1.0
    total = 0.0
    for b in range(B):
        total += state[at + b]
    sign = 1 if low <= up else -1
    u = low if sign == 1 else up
    r = u * B
    b = int(r)
    if b > B - 1:
        b = B - 1
    part = 0.0
    for i in range(b):
        part += state[at + i] if sign == 1 else state[at + B - 1 - i]
    here = state[at + b] if sign == 1 else state[at + B - 1 - b]
    part = (part + here * (r - b)) / total
    if sign == 1:
        out[0] = part
        out[1] = 1.0 - part
    else:
        out[0] = 1.0 - part
        out[1] = part
    return here * B / total


def unbend(q, upper, state, at, B):
    """The tail before the second stage whose tail after it is q, of the same side."""
    if at < 0:
        return q
    total = 0.0
    for b in range(B):
        total += state[at + b]
    goal = q * total
    part = 0.0
    here = 0.0
    i = 0
    for b in range(B):
        i = b
        here = state[at + B - 1 - b] if upper else state[at + b]
        if part + here >= goal:
            break
        part += here
    u = (i + (goal - part) / here) / B
    return u if u < 1.0 else 1.0


def learn(state, y, which, n, K, m, B, constants, experts, prior, x, law, work):
    """The state after the reading y; x and law are those of `prepare`."""
    run = state[RUN]
    unit = constants[UNIT]
    if run >= constants[REFILL] and constants[LEARNS] > 0.0:
        half = constants[CELL]
        at = find_cell(state, which, n, K, m, B, constants, x)
        mixture_tails(y - half, K, experts, law, work)
        low = work[0]
        up = work[1]
        if half > 0.0:
            mixture_tails(y + half, K, experts, law, work)
            high = work[0]
        else:
            high = low
        if at >= 0:
            # one count, spread evenly over what the cell of the reading covers
            width = high - low
            total = 0.0
            for b in range(B):
                if width > 1e-9:
                    s = (high if high * B < b + 1 else (b + 1.0) / B) - (low if low * B > b else b * 1.0 / B)
                    if s > 0.0:
                        state[at + b] += s / width
                elif (low * B >= b or b == 0) and (low * B < b + 1 or b == B - 1):
                    state[at + b] += 1.0
                total += state[at + b]
            if total > constants[COUNTED]:
                for b in range(B):
                    state[at + b] *= constants[COUNTED] / total
        for i in range(3):
            state[RECENT + 3 - i] = state[RECENT + 2 - i]
        state[RECENT] = low - up if half == 0.0 else low + high - 1.0
        # weights: Bayes' rule, then a share for all
        o = HEAD + which * block_size(n, K)
        total = 0.0
        for k in range(K):
            e = law[2 * K + k]
            if half > 0.0:
                t = (y - half - law[K + k]) / e
                s = (y + half - law[K + k]) / e
                if t >= 0.0:
                    f = student_tail(t, experts[k * EXPERT + HALF]) - student_tail(s, experts[k * EXPERT + HALF])
                elif s <= 0.0:
                    f = student_tail(-s, experts[k * EXPERT + HALF]) - student_tail(-t, experts[k * EXPERT + HALF])
                else:
                    f = 1.0 - student_tail(s, experts[k * EXPERT + HALF]) - student_tail(-t, experts[k * EXPERT + HALF])
                if f < 0.0:
                    f = 0.0
            else:
                t = (y - law[K + k]) / e
                f = student_density(t, experts[k * EXPERT + HALF], experts[k * EXPERT + HEIGHT]) / e
            work[k] = law[k] * f
            total += work[k]
        for k in range(K):
            s = experts[k * EXPERT + WEIGHT]
            if total > TINY:
                state[o + k] = (1.0 - constants[SHARE]) * (work[k] / total) + constants[SHARE] * s
            else:
                state[o + k] = s
        o += K
        a = which * (n + n * n + 1)
        for k in range(K):
            phi = experts[k * EXPERT + PHI]
            nu = 2.0 * experts[k * EXPERT + HALF]
            # q = 1 + x'Px
            q = 1.0
            for i in range(n):
                s = 0.0
                for j in range(n):
                    s += state[o + n + i * n + j] * x[j]
                work[i] = s
                q += x[i] * s
            e = (y - law[K + k]) / unit
            c = o + n + n * n
            # a stays at nu / 2, so that b / a moves: s2 <- (1 - (1 + h) / nu) s2 + (h / nu) s0 + (1 / nu) e^2 / q
            t = PULL * prior[a + n + n * n] + e * e / q + constants[FLOOR]
            t = (1.0 - (1.0 + PULL) / nu) * state[c] + t / nu
            s = WIDEST * prior[a + n + n * n]
            state[c] = t if t < s else s
            f = phi * phi
            for i in range(n):
                s = work[i] / q
                # m <- m0 + phi (m + P x e / q - m0)
                state[o + i] = prior[a + i] + phi * (state[o + i] + s * e - prior[a + i])
                for j in range(i + 1):
                    c = o + n + i * n + j
                    # P <- phi^2 (P - P x x'P / q) + (1 - phi^2) P0
                    t = f * (state[c] - s * work[j]) + (1.0 - f) * prior[a + n + i * n + j]
                    state[c] = t
                    state[o + n + j * n + i] = t
            o += n + n * n + 1
    if run > 0.0:
        for i in range(WINDOW - 1):
            state[STEPS + WINDOW - 1 - i] = state[STEPS + WINDOW - 2 - i]
        state[STEPS] = y - state[LAST]
        p = int(constants[ORDER])
        state[DECAY] = x[3 + p]
        state[DECAY + 1] = x[4 + p]
    state[LAST] = y
    state[LABEL] = which
    if run <= WINDOW:
        state[RUN] = run + 1.0


def forward(Y, E, which, T, Q, state, n, K, m, B, constants, experts, prior, tails, density, work):
    """Readings Y (T,) with their values `which`: signed tails at the points E (T, Q), and the density at Y.

    A tail is that of the smaller side, negative for the upper one. Returns the number of rows done: fewer than T where
    a law breaks down.
    """
    x = work[:n]
    law = work[n : n + 3 * K]
    rest = work[n + 3 * K :]
    for k in range(T):
        v = which[k]
        prepare(state, v, n, K, constants, experts, prior, x, law)
        at = find_cell(state, v, n, K, m, B, constants, x)
        for i in range(Q):
            mixture_tails(E[k * Q + i], K, experts, law, rest)
            bend(rest[0], rest[1], state, at, B, rest)
            tails[k * Q + i] = rest[0] if rest[0] <= rest[1] else -rest[1]
        mixture_tails(Y[k], K, experts, law, rest)
        s = bend(rest[0], rest[1], state, at, B, rest)
        density[k] = s * mixture_density(Y[k], K, experts, law)
        learn(state, Y[k], v, n, K, m, B, constants, experts, prior, x, law, rest)
        if not (state[LAST] == state[LAST]):
            return k
    return T


def quantile(q, upper, K, experts, law):
    """The y at which the tail of the mixture is q: the upper one, or the lower.

    A bracket is found by doubling, then Newton's method inside it.
    """
    sign = 1.0 if upper else -1.0  # the lower tail is the upper one of the mirror image
    start = 0.0
    least = math.inf
    most = 0.0
    for k in range(K):
        start += law[k] * (sign * law[K + k])
        if law[2 * K + k] < least:
            least = law[2 * K + k]
        if law[2 * K + k] > most:
            most = law[2 * K + k]
    low = start
    high = start
    step = most
    for _ in range(1100):
        if upper_tail(high, sign, K, experts, law) <= q:
            break
        low = high
        high = start + step
        step *= 2.0
    step = most
    for _ in range(1100):
        if upper_tail(low, sign, K, experts, law) >= q:
            break
        high = low
        low = start - step
        step *= 2.0
    x = 0.5 * low + 0.5 * high
    for i in range(200):
        h = upper_tail(x, sign, K, experts, law) - q
        if h > 0.0:
            low = x
        elif h < 0.0:
            high = x
        else:
            break
        f = mixture_density(sign * x, K, experts, law)
        step = h / f if f > 0.0 else math.inf
        if math.fabs(step) <= 1e-14 * least or x + step == x:
            break
        x += step
        if not (x > low and x < high) or (i >= 20 and i % 2 == 1):
            x = 0.5 * low + 0.5 * high
            if not (x > low and x < high):
                break
    return sign * x


def upper_tail(y, sign, K, experts, law):
    """The upper tail of the mixture at y, or that of its mirror image (sign -1)."""
    up = 0.0
    for k in range(K):
        t = (y - sign * law[K + k]) / law[2 * K + k]
        q = student_tail(math.fabs(t), experts[k * EXPERT + HALF])
        up += law[k] * (1.0 - q if t < 0.0 else q)
    return up


def law_tails(Y, T, K, B, experts, law, counts, tails, density, work):
    """Signed tails and densities of many readings under one law; counts (B,) are those of its second stage."""
    at = 0 if B > 0 else -1
    for k in range(T):
        mixture_tails(Y[k], K, experts, law, work)
        s = bend(work[0], work[1], counts, at, B, work)
        tails[k] = work[0] if work[0] <= work[1] else -work[1]
        density[k] = s * mixture_density(Y[k], K, experts, law)


def law_values(q, upper, T, K, B, experts, law, counts, out):
    """Readings from tails of the side that `upper` tells, under one law."""
    at = 0 if B > 0 else -1
    for k in range(T):
        out[k] = quantile(unbend(q[k], upper[k] > 0.0, counts, at, B), upper[k] > 0.0, K, experts, law)


def backward(q, upper, which, T, state, n, K, m, B, constants, experts, prior, out, work):
    """Readings from tails q (T,) of the side that `upper` tells, into out; fewer than T where one is not finite."""
    x = work[:n]
    law = work[n : n + 3 * K]
    rest = work[n + 3 * K :]
    for k in range(T):
        v = which[k]
        prepare(state, v, n, K, constants, experts, prior, x, law)
        at = find_cell(state, v, n, K, m, B, constants, x)
        u = unbend(q[k], upper[k] > 0.0, state, at, B)
        y = quantile(u, upper[k] > 0.0, K, experts, law)
        if not (math.fabs(y) < math.inf):
            return k
        out[k] = y
        learn(state, y, v, n, K, m, B, constants, experts, prior, x, law, rest)
    return T
