"""The hot loops of rounded readings: cells instead of numbers (see `laws/atoms.py` for what is computed).

Ordinary Python; the types for the compiler stand in the `.pxd` of the same name. Systems are rows of A, b, Q, C, d,
R; grids are rows of step, offset, low, high, one a channel. A score comes out as a *signed tail*: the smaller of the
probabilities below and above it, with its sign. The caller turns tails into scores, all at once.

A loop stops, and says why, at a reading that it cannot use or that lies too far out for its arithmetic.
"""

import math

DONE = 0
INFINITE = 1  # a reading that is infinite
OFF_GRID = 2  # a reading that is not on the grid
FAR = 3  # a cell that is treated elsewhere

ROOT_HALF = 0.7071067811865476  # sqrt(1/2)
INV_ROOT_2PI = 0.3989422804014327  # 1 / sqrt(2 pi)
LOG_ROOT_2PI = 0.9189385332046727  # log(2 pi) / 2
TOLERANCE = 1e-9  # of a step, from a grid point, as in laws/atoms.py
ROUNDING = 8.881784197001252e-16  # four roundings of the reading
LARGEST = 1e15  # steps from the offset
SURE = 1e14  # up to here the product with 1/step finds the point that is near, if there is one
WHOLE = 6755399441055744.0  # 3 2^51: adding and taking it off leaves the nearest whole number
FRACTIONS = 4503599627370496.0  # 2^52: from here on every float is whole
MISSING = float("nan")
ENDLESS = float("inf")
DEEP = 8.0  # standard deviations from which on differences of tails lose digits
TINY = 1e-290
UNLIKELY = 1e-11


def grid_point(y, step, offset):
    """The nearest point of the grid, or NaN if it is not near."""
    t = (y - offset) / step
    if not (t < LARGEST and t > -LARGEST):
        return MISSING
    point = offset + step * ((t + WHOLE) - WHOLE)
    if math.fabs(y - point) <= TOLERANCE * step + ROUNDING * math.fabs(y):
        return point
    return MISSING


def cell(a, b, half, v, nodes, r):
    """Mean, variance and signed tail of the score of a standard normal in (a, b), into r; whether it is too far."""
    left = a + b < 0.0
    if left:
        t = a
        a = -b
        b = -t
        v = 1.0 - v
    m = 0.5 * (a + b)
    if half * (m if m > 1.0 else 1.0) <= 1.0:
        if m > 30.0:
            return True
        M0 = 0.0
        M1 = 0.0
        M2 = 0.0
        for i in range(0, 20, 4):
            s = half * nodes[i]
            f = math.exp(-s * (0.5 * s + m))
            t = math.exp(-s * (0.5 * s - m))
            M0 += nodes[i + 1] * (t + f)
            M1 += nodes[i + 2] * (f - t)
            M2 += nodes[i + 3] * (t + f)
        t = M1 / M0
        mean = m + half * t
        variance = half * half * (M2 / M0 - t * t)
        P = 2.0 * half * M0 * (math.exp(-0.5 * m * m) * INV_ROOT_2PI)
        above = 0.5 * math.erfc(b * ROOT_HALF)
    else:
        if a > DEEP:
            return True
        above = 0.5 * math.erfc(b * ROOT_HALF)
        P = 0.5 * math.erfc(a * ROOT_HALF) - above
        f = math.exp(-0.5 * a * a) * INV_ROOT_2PI
        t = math.exp(-0.5 * b * b) * INV_ROOT_2PI
        mean = (f - t) / P
        variance = 1.0 + ((a * f if f > 0.0 else 0.0) - (b * t if t > 0.0 else 0.0)) / P - mean * mean
    tail = above + (1.0 - v) * P
    if tail > 0.5:
        tail = -(0.5 * math.erfc(-a * ROOT_HALF) + v * P)
    if math.fabs(tail) < TINY:
        return True
    r[0] = -mean if left else mean
    r[1] = variance
    r[2] = -tail if left else tail
    return False


def run_cells(y, v, out, k, stop, n, d, system, stride, grid, x, P, nodes, w, r):
    """The moment-matched Kalman filter, any number of states and channels, from reading k to `stop`.

    x and P are the filtered mean and covariance, and move along. Row j of `system` serves reading j (stride 0: one
    row serves all). Scores of channels that are not rounded come out as scores. Returns (k, why).
    """
    N = n + d
    oM = N * N
    oK = oM + N
    oT = oK + N
    while k < stop:
        missing = False
        for i in range(d):
            t = y[k * d + i]
            if t != t:
                missing = True
            elif t - t != 0.0:
                return k, INFINITE
        o = k * stride
        oQ = o + n * n + n
        oC = oQ + n * n
        od = oC + d * n
        # A x + b behind the rest, A P A' + Q in front
        for i in range(n):
            t = system[o + n * n + i]
            for j in range(n):
                t += system[o + i * n + j] * x[j]
            w[oM + i] = t
            for j in range(n):
                t = 0.0
                for l in range(n):
                    t += system[o + i * n + l] * P[l * n + j]
                w[oT + i * n + j] = t
        for i in range(n):
            for j in range(n):
                t = system[oQ + i * n + j]
                for l in range(n):
                    t += w[oT + i * n + l] * system[o + j * n + l]
                w[i * N + j] = t
        if missing:
            for i in range(n):
                x[i] = w[oM + i]
                for j in range(n):
                    P[i * n + j] = w[i * N + j]
            for i in range(d):
                out[k * d + i] = MISSING
            k += 1
            continue
        # the reading: C x + d, its covariances with the state, and its own
        for i in range(d):
            t = system[od + i]
            for j in range(n):
                t += system[oC + i * n + j] * w[oM + j]
            w[oM + n + i] = t
            for j in range(n):
                t = 0.0
                for l in range(n):
                    t += system[oC + i * n + l] * w[l * N + j]
                w[(n + i) * N + j] = t
                w[j * N + n + i] = t
        for i in range(d):
            for j in range(d):
                t = system[od + d + i * d + j]
                for l in range(n):
                    t += w[(n + i) * N + l] * system[oC + j * n + l]
                w[(n + i) * N + n + j] = t
        for i in range(d):
            c = n + i
            S = w[c * N + c]
            q = w[oM + c]
            t = y[k * d + i]
            if grid[4 * i] == 0.0:
                shift = t - q
                variance = 0.0
                out[k * d + i] = shift / math.sqrt(S)
            else:
                t = grid_point(t, grid[4 * i], grid[4 * i + 1])
                if not (t >= grid[4 * i + 2] and t <= grid[4 * i + 3]):
                    return k, OFF_GRID
                half = 0.5 * grid[4 * i]
                low = t - half
                high = t + half
                if t <= grid[4 * i + 2]:
                    low = -ENDLESS
                    half = ENDLESS
                if t >= grid[4 * i + 3]:
                    high = ENDLESS
                    half = ENDLESS
                s = math.sqrt(S)
                if cell((low - q) / s, (high - q) / s, half / s, v[k * d + i], nodes, r):
                    return k, FAR
                shift = s * r[0]
                variance = S * r[1]
                out[k * d + i] = r[2]
            for j in range(N):
                w[oK + j] = w[j * N + c] / S
            for j in range(N):
                w[oM + j] += w[oK + j] * shift
                for l in range(N):
                    t = w[oK + j] * w[oK + l]
                    w[j * N + l] = (w[j * N + l] - t * S) + t * variance
        for i in range(n):
            x[i] = w[oM + i]
            for j in range(n):
                P[i * n + j] = 0.5 * (w[i * N + j] + w[j * N + i])
        k += 1
    return k, DONE


def run_line(y, v, E, D, k, stop, system, grid, x, P, table, nodes, r):
    """The same for one state, one channel and a constant system, with polynomials where cells are narrow.

    There E receives the innovation and D 1/S, for `line_scores`; elsewhere E receives the signed tail and D -1.
    The table: the range of g = half^2/S, its scale, the largest c^2, and the polynomials of 1 - g M and g V, where
    -c M and V are mean and variance in the cell, over its half-width. Returns (k, why, x, P).
    """
    A, b, Q, C, d, R = system[0], system[1], system[2], system[3], system[4], system[5]
    step, offset, low, high = grid[0], grid[1], grid[2], grid[3]
    half = 0.5 * step
    square = half * half
    least, most, top = table[0] / square, table[1] / square, table[4]
    # everything as near to x and P as can be: the loop waits for each of these, one after the other
    slope = C * A
    level = C * b + d
    S1 = slope * slope
    S0 = C * Q * C + R
    A2 = A * A
    G1 = C * A2
    G0 = C * Q
    scale = square * table[3]
    middle = table[2] * table[3]
    while k < stop:
        t = y[k]
        point = grid_point(t, step, offset)
        e = (point - level) - slope * x
        S = S1 * P + S0
        # xhat_{k|k-1}, Sigma_{k|k-1}, and C times it
        z = A * x + b
        F = A2 * P + Q
        G = G1 * P + G0
        if point > low and point < high:
            i = 1.0 / S
            c = (e * half) * i
            f = c * c
            if f <= top and i >= least and i <= most:
                u = scale * i - middle
                h = f * f
                K = G * i
                M = (
                    ((table[5] + table[6] * f) + (table[7] + table[8] * f) * h) + (table[9] + table[10] * f) * (h * h)
                ) + u * (
                    ((table[11] + table[12] * f) + (table[13] + table[14] * f) * h) + u * (table[15] + table[16] * f)
                )
                V = (
                    ((table[17] + table[18] * f) + (table[19] + table[20] * f) * h)
                    + (table[21] + table[22] * f) * (h * h)
                ) + u * (
                    ((table[23] + table[24] * f) + (table[25] + table[26] * f) * h) + u * (table[27] + table[28] * f)
                )
                x = z + (K * e) * M
                P = F * (R * i) + (K * G) * V
                E[k] = e
                D[k] = i
                k += 1
                continue
        D[k] = -1.0
        if t != t:
            E[k] = MISSING
            x = z
            P = F
            k += 1
            continue
        if t - t != 0.0:
            return k, INFINITE, x, P
        if not (point >= low and point <= high):
            return k, OFF_GRID, x, P
        s = math.sqrt(S)
        c = -ENDLESS if point <= low else (e - half) / s
        h = ENDLESS if point >= high else (e + half) / s
        if cell(c, h, half / s if point > low and point < high else ENDLESS, v[k], nodes, r):
            return k, FAR, x, P
        K = G / S
        E[k] = r[2]
        x = z + K * (s * r[0])
        P = F * (R / S) + K * K * (S * r[1])
        k += 1
    return k, DONE, x, P


def line_rooms(y, v, E, D, rooms, system, grid, x, P, table, nodes, r, bad):
    """`run_line` for one reading of each of many rooms, whose states are x and P; `bad` tells whose is not for it."""
    for k in range(rooms):
        _, bad[k], x[k], P[k] = run_line(y, v, E, D, k, k + 1, system, grid, x[k], P[k], table, nodes, r)


def cells_rooms(y, v, out, rooms, n, d, system, grid, x, P, nodes, w, r, bad):
    """`run_cells` for one reading of each of many rooms, whose states are the rows of x and P."""
    for k in range(rooms):
        o = k * d
        e = o + d
        _, bad[k] = run_cells(
            y[o:e], v[o:e], out[o:e], 0, 1, n, d, system, 0, grid,
            x[k * n : (k + 1) * n], P[k * n * n : (k + 1) * n * n], nodes, w, r,
        )  # fmt: skip


def run_lanes(y, v, E, D, k, length, system, grid, states, table, nodes, r):
    """`run_line` on eight stretches of `length` readings at once, the first of which begins at k.

    One stretch waits for its own results most of the time; eight side by side do not. Stretch j begins with
    x = states[j] and P = states[8 + j] and ends with states[16 + j] and states[24 + j]. The table is a short one, so
    that the polynomials leave out what `run_line` multiplies by zero. Where a cell is not narrow, `run_line` takes that
    reading. states[32] becomes 1, or 0 where a reading must be treated elsewhere: then nothing here counts.
    """
    x = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    P = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    xs = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    Ps = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    es = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ds = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    fs = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    A, b, Q, C, d, R = system[0], system[1], system[2], system[3], system[4], system[5]
    step, offset, low, high = grid[0], grid[1], grid[2], grid[3]
    half = 0.5 * step
    square = half * half
    least, most, top = table[0] / square, table[1] / square, table[4]
    slope = C * A
    level = C * b + d
    S1 = slope * slope
    S0 = C * Q * C + R
    A2 = A * A
    G1 = C * A2
    G0 = C * Q
    scale = square * table[3]
    middle = table[2] * table[3]
    near = TOLERANCE * step
    inverse = 1.0 / step
    # in the registers' reach: the compiler cannot know that E and D are not the table
    M0, M1, M2, M3, M4, M5, M6 = table[5], table[6], table[7], table[8], table[11], table[12], table[13]
    V0, V1, V2, V3, V4, V5, V6 = table[17], table[18], table[19], table[20], table[23], table[24], table[25]
    states[32] = 0.0
    for j in range(8):
        x[j] = states[j]
        P[j] = states[8 + j]
    for l in range(length):
        wide = 0
        for j in range(8):
            # the grid point, NaN where there is none, it is an end of the range, or a product may not tell it
            e = y[k + j * length + l]
            t = (e - offset) * inverse
            point = offset + step * ((t + WHOLE) - WHOLE)
            point = point if math.fabs(e - point) <= near + ROUNDING * math.fabs(e) else MISSING
            point = point if math.fabs(t) < SURE else MISSING
            point = point if point > low else MISSING
            point = point if point < high else MISSING
            e = (point - level) - slope * x[j]
            S = S1 * P[j] + S0
            z = A * x[j] + b
            F = A2 * P[j] + Q
            G = G1 * P[j] + G0
            i = 1.0 / S
            c = (e * half) * i
            f = c * c
            u = scale * i - middle
            h = f * f
            K = G * i
            M = ((M0 + M1 * f) + (M2 + M3 * f) * h) + u * ((M4 + M5 * f) + M6 * h)
            V = ((V0 + V1 * f) + (V2 + V3 * f) * h) + u * ((V4 + V5 * f) + V6 * h)
            xs[j] = z + (K * e) * M
            Ps[j] = F * (R * i) + (K * G) * V
            es[j] = e
            ds[j] = i
            f = f if i >= least else MISSING
            f = f if i <= most else MISSING
            fs[j] = f
            wide += 0 if f <= top else 1
        if wide:
            for j in range(8):
                if not fs[j] <= top:
                    at = k + j * length + l
                    stop, _, xs[j], Ps[j] = run_line(y, v, E, D, at, at + 1, system, grid, x[j], P[j], table, nodes, r)
                    if stop == at:
                        return
                    es[j] = E[at]
                    ds[j] = D[at]
        for j in range(8):
            x[j] = xs[j]
            P[j] = Ps[j]
        for j in range(8):
            E[k + j * length + l] = es[j]
            D[k + j * length + l] = ds[j]
    for j in range(8):
        states[16 + j] = x[j]
        states[24 + j] = P[j]
    states[32] = 1.0


def line_scores(E, D, v, out, count, half, table):
    """Scores of narrow cells from what `run_line` found, without branches: z = (e + half t) / sqrt(S).

    With W(w, g) = int_0^1 exp(-w s - g s^2 / 2) ds, t solves t W(c t, g t^2) = (2 v - 1) even - c odd, where even
    and odd are those parts of W(c, g). First for g = 0; the factor to the true t is a polynomial in c t and g t^2.
    """
    square = half * half
    for k in range(count):
        e = E[k]
        i = D[k]
        i = i if i > 0.0 else 0.0
        c = e * half * i
        g = square * i
        f = c * c
        h = f * f
        u = (g - table[0]) * table[1]
        even = (
            ((table[2] + table[3] * f) + (table[4] + table[5] * f) * h) + (table[6] + table[7] * f) * (h * h)
        ) + u * (((table[8] + table[9] * f) + (table[10] + table[11] * f) * h) + u * (table[12] + table[13] * f))
        odd = (
            ((table[14] + table[15] * f) + (table[16] + table[17] * f) * h) + (table[18] + table[19] * f) * (h * h)
        ) + u * (((table[20] + table[21] * f) + (table[22] + table[23] * f) * h) + u * (table[24] + table[25] * f))
        t = (2.0 * v[k] - 1.0) * even - c * odd
        # g = 0: t = -log(1 - c t) / c = 2 atanh(p / (2 - p)) / c with p = c t
        p = c * t
        q = 1.0 / (2.0 - p)
        s = p * q
        s = s * s
        h = s * s
        t = (2.0 * t * q) * (
            (table[26] + s * table[27])
            + h * ((table[28] + s * table[29]) + h * ((table[30] + s * table[31]) + h * table[32]))
        )
        w = c * t
        g = g * t * t
        f = w * w
        h = f * f
        t = t + t * g * (
            ((table[33] + w * table[34]) + f * (table[35] + w * table[36]))
            + h * ((table[37] + w * table[38]) + f * (table[39] + w * table[40]))
            + g * (
                ((table[41] + w * table[42]) + f * (table[43] + w * table[44]))
                + h * ((table[45] + w * table[46]) + f * table[47])
                + g * (
                    ((table[48] + w * table[49]) + f * (table[50] + w * table[51])) + h * (table[52] + w * table[53])
                    + g * (
                        ((table[54] + w * table[55]) + f * (table[56] + w * table[57]))
                        + g * ((table[58] + w * table[59]) + f * table[60] + g * (table[61] + w * table[62]))
                    )
                )
            )
        )  # fmt: skip
        out[k] = (e + half * t) * math.sqrt(i)


def line_scores_short(E, D, v, out, count, half, table):
    """The same with the short polynomials."""
    square = half * half
    for k in range(count):
        e = E[k]
        i = D[k]
        i = i if i > 0.0 else 0.0
        c = e * half * i
        g = square * i
        f = c * c
        h = f * f
        u = (g - table[0]) * table[1]
        even = ((table[2] + table[3] * f) + (table[4] + table[5] * f) * h) + u * (
            (table[6] + table[7] * f) + table[8] * h
        )
        odd = ((table[9] + table[10] * f) + (table[11] + table[12] * f) * h) + u * (
            (table[13] + table[14] * f) + table[15] * h
        )
        t = (2.0 * v[k] - 1.0) * even - c * odd
        p = c * t
        q = 1.0 / (2.0 - p)
        s = p * q
        s = s * s
        h = s * s
        t = (2.0 * t * q) * ((table[16] + s * table[17]) + h * ((table[18] + s * table[19]) + h * table[20]))
        w = c * t
        g = g * t * t
        f = w * w
        t = t + t * g * (
            ((table[21] + w * table[22]) + f * ((table[23] + w * table[24]) + f * (table[25] + w * table[26])))
            + g * (
                ((table[27] + w * table[28]) + f * (table[29] + w * table[30]))
                + g * ((table[31] + w * table[32]) + f * table[33])
            )
        )  # fmt: skip
        out[k] = (e + half * t) * math.sqrt(i)


def round_all(y, count, step, offset):
    """Every number to the nearest point of the grid, in place; NaN stays."""
    for k in range(count):
        t = (y[k] - offset) / step
        # to the nearest whole number, the even one of two, as `numpy.rint` does it
        s = math.fabs(t)
        r = FRACTIONS if s < FRACTIONS else 0.0
        y[k] = math.copysign((s + r) - r, t) * step + offset


def run_points(y, v, out, k, stop, system, stride, grid, fineness, state, W, U):
    """The point-mass filter for one state, one channel with noise, from reading k to `stop`.

    The state: first point, spacing, mean, variance, number of points; their weights stand in W, and U is room for
    as many. Returns (k, why); a missing reading is treated elsewhere, too.
    """
    step = grid[0]
    half = 0.5 * step
    reach = fineness[1]
    while k < stop:
        o = k * stride
        A, b, Q = system[o], system[o + 1], system[o + 2]
        C, d, R = system[o + 3], system[o + 4], system[o + 5]
        N = int(state[4])
        t = y[k]
        if t - t != 0.0 and t == t:
            return k, INFINITE
        if N == 0 or t != t or C == 0.0 or not (Q > 0.0 and R > 0.0):
            return k, FAR
        point = grid_point(t, step, grid[1])
        if not (point >= grid[2] and point <= grid[3]):
            return k, OFF_GRID
        low = -ENDLESS if point <= grid[2] else point - half
        high = ENDLESS if point >= grid[3] else point + half
        # the score: y is normal around each point's prediction
        first = C * (A * state[0] + b) + d
        slope = C * A * state[1]
        r = ROOT_HALF / math.sqrt(C * C * Q + R)
        left = point < C * (A * state[2] + b) + d
        share = v[k]
        if left:
            share = 1.0 - share
        above = 0.0
        P = 0.0
        for j in range(N):
            q = first + slope * j
            if left:
                t = 0.5 * math.erfc((q - low) * r)
                p = 0.5 * math.erfc((q - high) * r)
            else:
                t = 0.5 * math.erfc((high - q) * r)
                p = 0.5 * math.erfc((low - q) * r)
            above += W[j] * t
            P += W[j] * (p - t)
        if not P > UNLIKELY:
            return k, FAR
        tail = above + (1.0 - share) * P
        if tail > 0.5:
            below = 0.0
            for j in range(N):
                q = first + slope * j
                t = (high - q) * r if left else (q - low) * r
                below += W[j] * (0.5 * math.erfc(t))
            tail = -(below + share * P)
        # the new points: where both the move and the cell reach
        first = A * state[0] + b
        last = A * (state[0] + state[1] * (N - 1)) + b
        if first > last:
            t = first
            first = last
            last = t
        root = math.sqrt(Q)
        first -= reach * root
        last += reach * root
        noise = math.sqrt(R)
        t = (low - reach * noise - d) / C
        p = (high + reach * noise - d) / C
        if t > p:
            q = t
            t = p
            p = q
        if t > first:
            first = t
        if p < last:
            last = p
        if not first < last:
            return k, FAR
        t = (last - first) / (fineness[0] / math.sqrt((1.0 + A * A) / Q + C * C / R))
        if not t < fineness[3] - 2.0:
            return k, FAR
        count = int(t)
        count += 2
        width = (last - first) / (count - 1)
        r = ROOT_HALF / noise
        start = A * state[0] + b
        slope = A * state[1] / root
        drop = math.exp(-slope * slope)
        total = 0.0
        largest = 0.0
        for i in range(count):
            u = first + width * i
            q = C * u + d
            t = (low - q) * r
            p = (high - q) * r
            if t + p < 0.0:
                L = -t
                t = -p
                p = L
            L = 0.5 * (math.erfc(t) - math.erfc(p))
            if L > 0.0:
                L = L * smoothed(W, N, (u - start) / root, slope, drop)
            U[i] = L
            total += L
            if L > largest:
                largest = L
        if not total * width * INV_ROOT_2PI / root > UNLIKELY:
            return k, FAR
        i = 0
        t = fineness[2] * largest
        while not U[i] > t:
            i += 1
        j = count - 1
        while not U[j] > t:
            j -= 1
        total = 0.0
        mean = 0.0
        for N in range(i, j + 1):
            total += U[N]
            mean += U[N] * (N - i)
        mean = mean / total
        t = 0.0
        for N in range(i, j + 1):
            p = (N - i) - mean
            t += U[N] * (p * p)
            W[N - i] = U[N] / total
        state[0] = first + width * i
        state[1] = width
        state[2] = state[0] + width * mean
        state[3] = width * width * (t / total)
        state[4] = j + 1 - i
        out[k] = -tail if left else tail
        k += 1
    return k, DONE


def smoothed(W, N, u, slope, drop):
    """Sum over j of W[j] exp(-(u - slope j)^2 / 2), by ratios from the largest term outward."""
    if slope == 0.0:
        return math.exp(-0.5 * u * u)
    t = u / slope
    if t < 0.0:
        j = 0
    elif t > N - 1:
        j = N - 1
    else:
        j = int(t + 0.5)
    t = u - slope * j
    g = math.exp(-0.5 * t * t)
    total = W[j] * g
    # exp(-(t - slope)^2/2) = exp(-t^2/2) exp(slope t - slope^2/2), and each further ratio is less by exp(-slope^2)
    r = math.exp(slope * t - 0.5 * slope * slope)
    f = g
    ratio = r
    for i in range(j + 1, N):
        f = f * ratio
        ratio = ratio * drop
        total += W[i] * f
        if f < 1e-30:
            break
    f = g
    ratio = drop / r
    for i in range(j - 1, -1, -1):
        f = f * ratio
        ratio = ratio * drop
        total += W[i] * f
        if f < 1e-30:
            break
    return total


def log_cells(a, b, v, logs, log_v, log_w, nodes, count):
    """Logarithms of the probabilities that a standard normal lies in (a, b), and those of v and of 1 - v.

    The arithmetic of one number in `laws/atoms.py`, operation by operation. NaN where it is that of a tail, or fails.
    """
    for k in range(count):
        log_v[k] = math.log(v[k])
        log_w[k] = math.log1p(-v[k])
        s = a[k]
        t = b[k]
        half = 0.5 * (t - s)
        if s + t < 0.0:
            m = -t
            t = -s
            s = m
        m = 0.5 * (s + t)
        P = MISSING
        if half * (1.0 if 1.0 > m else m) <= 1.0:
            if half > 0.0:
                P = 0.0
                for i in range(0, 20, 4):
                    q = half * nodes[i]
                    P += nodes[i + 1] * (math.exp(-q * (0.5 * q - m)) + math.exp(-q * (0.5 * q + m)))
                P = math.log(2.0 * half * P) - 0.5 * m * m - LOG_ROOT_2PI
        elif s < 0.0:
            q = 0.5 * math.erfc(-s * ROOT_HALF) + 0.5 * math.erfc(t * ROOT_HALF)
            if q < 1.0:
                P = math.log1p(-q)
        elif s < 1.0:
            q = 0.5 * math.erfc(s * ROOT_HALF) - 0.5 * math.erfc(t * ROOT_HALF)
            if q > 0.0:
                P = math.log(q)
        logs[k] = P


def run_regression(e, out, count, order, system, grid, past):
    """An autoregression of one channel on a grid, of order 1 or 2: what is reported for innovations e.

    The system: intercept and coefficients. `past` holds the last readings, the latest first, and moves along.
    """
    step, offset, low, high = grid[0], grid[1], grid[2], grid[3]
    level, one = system[0], system[1]
    two = system[2] if order > 1 else 0.0
    y = past[0]
    x = past[1] if order > 1 else 0.0
    for k in range(count):
        mean = one * y + two * x + 0.0 if order > 1 else one * y + 0.0
        x = y
        y = on_grid(e[k] + (level + mean), step, offset, low, high)
        out[k] = y
    past[0] = y
    if order > 1:
        past[1] = x


def on_grid(y, step, offset, low, high):
    """What is reported for y: the nearest point, the even one of two, inside the range."""
    t = (y - offset) / step
    s = math.fabs(t)
    r = FRACTIONS if s < FRACTIONS else 0.0
    y = offset + step * math.copysign((s + r) - r, t)
    if low > y:
        y = low
    if high < y:
        y = high
    return y


def guess_regression(z, out, count, order, d, system, root, grid, tables, sizes, past, w):
    """What an autoregression of d channels on a grid reports for scores z (count, d), nearly always.

    Each channel has a table of its quantiles, four rows of sizes[i] numbers: scores, innovations, slopes of these over
    those, and of those over these. `root` (d, d) makes the scores of channels from independent ones. What is found is
    a guess, because tables are interpolated: the caller proves it.
    """
    n = order * d
    for k in range(count):
        begin = 0
        for i in range(d):
            mean = system[i]
            for j in range(n):
                mean += system[d + (j // d) * d * d + i * d + j % d] * past[j]
            s = 0.0
            for j in range(i):
                s += root[i * d + j] * w[j]
            size = sizes[i]
            e = interpolated(s + root[i * d + i] * z[k * d + i], tables, begin, begin + size, begin + 2 * size, size)
            y = on_grid(e + mean, grid[4 * i], grid[4 * i + 1], grid[4 * i + 2], grid[4 * i + 3])
            out[k * d + i] = y
            e = interpolated(y - mean, tables, begin + size, begin, begin + 3 * size, size)
            w[i] = (e - s) / root[i * d + i]
            begin += 4 * size
        for j in range(n - 1, d - 1, -1):
            past[j] = past[j - d]
        for i in range(d):
            past[i] = out[k * d + i]


def guess_filter(given, index, out, X, count, n, d, system, gains, grid, colour, w):
    """A Kalman filter that goes on from what it reports on a grid, nearly to the bits of matrix products.

    `given` (count, d) are readings, or scores where `colour` is true: then `out` receives the readings. Row index[k]
    of `gains` holds the root (d, d) of the innovation covariance and the gain (n, d) of step k; -1: it is missing.
    X (count + 1, n) begins with the filtered mean and receives those after each step.
    """
    oC = 2 * n * n + n
    od = oC + d * n
    width = d * d + n * d
    for k in range(count):
        for i in range(n):
            t = system[n * n + i]
            for j in range(n):
                t += system[i * n + j] * X[k * n + j]
            X[(k + 1) * n + i] = t
        if index[k] < 0:
            continue
        g = index[k] * width
        for i in range(d):
            mean = system[od + i]
            for j in range(n):
                mean += system[oC + i * n + j] * X[(k + 1) * n + j]
            y = given[k * d + i]
            if colour:
                t = mean
                for j in range(i):
                    t += gains[g + i * d + j] * w[j]
                y = on_grid(
                    t + gains[g + i * d + i] * y, grid[4 * i], grid[4 * i + 1], grid[4 * i + 2], grid[4 * i + 3]
                )
                out[k * d + i] = y
                w[i] = (y - t) / gains[g + i * d + i]
            w[d + i] = y - mean
        for i in range(n):
            t = 0.0
            for j in range(d):
                t += gains[g + d * d + i * d + j] * w[d + j]
            X[(k + 1) * n + i] += t


def interpolated(x, table, at, values, slopes, size):
    """Cubic interpolation in a table: nodes from `at` on, values and slopes elsewhere in it; beyond them the ends."""
    low = 0
    high = size - 1
    while high - low > 1:
        i = (low + high) // 2
        if table[at + i] > x:
            high = i
        else:
            low = i
    width = table[at + high] - table[at + low]
    t = (x - table[at + low]) / width
    t = 0.0 if t < 0.0 else (1.0 if t > 1.0 else t)
    first = table[values + low]
    rise = table[values + high] - first
    u = 1.0 - t
    return first + t * (
        rise + u * (u * (table[slopes + low] * width - rise) + t * (rise - table[slopes + high] * width))
    )


def mixture_tails(y, below, above, count, parts, K):
    """What lies below and above readings under a mixture of K normals: rows of weight, mean and scale."""
    for k in range(count):
        p = 0.0
        q = 0.0
        for i in range(K):
            z = (y[k] - parts[3 * i + 1]) / parts[3 * i + 2]
            small = 0.5 * math.erfc(math.fabs(z) * ROOT_HALF)
            if z < 0.0:
                p += parts[3 * i] * small
                q += parts[3 * i] * (1.0 - small)
            else:
                p += parts[3 * i] * (1.0 - small)
                q += parts[3 * i] * small
        below[k] = p
        above[k] = q


def upper_tails(z, out, count):
    """The probability beyond each score, on its side."""
    for k in range(count):
        out[k] = 0.5 * math.erfc(math.fabs(z[k]) * ROOT_HALF)


def mixture_begin(z, beyond, work, count, parts, K):
    """Where the search for the quantiles of a mixture of normals begins.

    `beyond` (K, count) holds Phi^-1(q / w_i), with q the tail beyond the score, where it is below w_i, otherwise NaN.
    A row of `work` becomes 1 or -1 (the side of the score), its size, the bracket, and the first point.
    """
    for k in range(count):
        side = -1.0 if z[k] < 0.0 else 1.0
        goal = -z[k] if z[k] < 0.0 else z[k]
        total = 0.0
        best = MISSING
        low = ENDLESS
        high = -ENDLESS
        for i in range(K):
            quantile = side * parts[3 * i + 1] + parts[3 * i + 2] * goal
            total += parts[3 * i] * quantile
            low = quantile if quantile < low else low
            high = quantile if quantile > high else high
            u = beyond[i * count + k]
            if u == u:
                u = side * parts[3 * i + 1] - parts[3 * i + 2] * u
                if not best >= u:
                    best = u
        u = best if best == best else total
        if low > u:
            u = low
        if high < u:
            u = high
        work[5 * k] = side
        work[5 * k + 1] = goal
        work[5 * k + 2] = low
        work[5 * k + 3] = high
        work[5 * k + 4] = u


def mixture_look(todo, tail, sums, count, work, parts, K):
    """Tail, density, its bend and the rate of change at the points of the searches that go on."""
    for n in range(count):
        k = todo[n]
        side = work[5 * k]
        u = work[5 * k + 4]
        q = 0.0
        total = 0.0
        bend = 0.0
        rate = 0.0
        for i in range(K):
            scale = parts[3 * i + 2]
            x = (u - side * parts[3 * i + 1]) / scale
            density = parts[3 * i] * math.exp(-0.5 * x * x) / scale
            change = density / scale
            q += 0.5 * parts[3 * i] * math.erfc(x * ROOT_HALF)
            total += density
            bend -= change * x
            rate += change * (1.0 + math.fabs(x))
        tail[n] = q
        sums[3 * n] = total
        sums[3 * n + 1] = bend
        sums[3 * n + 2] = rate


def mixture_move(todo, tail, scores, sums, out, count, work, small):
    """Halley's step of each search, inside its bracket. Those that have ended go to `out`, NaN where they fail.

    `scores` are Phi^-1 of the tails. Returns how many go on: they come first in `todo`.
    """
    left = 0
    for n in range(count):
        k = todo[n]
        goal = work[5 * k + 1]
        u = work[5 * k + 4]
        total = sums[3 * n]
        rate = sums[3 * n + 2]
        out[k] = MISSING
        if not (TINY < tail[n] and tail[n] < 1.0 and total > 0.0):
            continue
        score = -scores[n]
        slope = total * math.exp(0.5 * score * score)
        if not slope * total > 1e-12 * rate:
            continue
        miss = score - goal
        move = -miss / slope
        t = 1.0 + 0.5 * move * (score * slope + sums[3 * n + 1] / total)
        t = 0.5 if 0.5 > t else t
        move /= 2.0 if 2.0 < t else t
        if miss < 0.0:
            work[5 * k + 2] = u
        else:
            work[5 * k + 3] = u
        low = work[5 * k + 2]
        high = work[5 * k + 3]
        t = u + move
        if math.fabs(move) * (rate / total + (1.0 + math.fabs(score)) * slope) < small:
            t = low if low > t else t
            t = high if high < t else t
            out[k] = work[5 * k] * t
            continue
        work[5 * k + 4] = t if low < t and t < high else 0.5 * low + 0.5 * high
        todo[left] = k
        left += 1
    return left
