"""The hot loops of the Gauss-Markov transformation (Theorem 4 of the paper), for one stream.

Ordinary Python over flat arrays of float64; the `.pxd` beside this file gives the types with which
Cython compiles it. Only + - * / and sqrt, in a fixed order, so that the plain and the compiled
module give the same bits on every machine. Nothing here checks its input: `pair.py` does.

A *system row* holds the matrices of one step, flattened one after the other::

    A (n n) | b (n) | Q (n n) | C (d n) | d (d) | R (d d)

A *gain row* holds what one step of a predictor needs. With x the filtered mean after the last
reading, J = I - K C and S = L L' the innovation covariance::

    [G K] = [J A, K] (n n+d) | H = C A (d n) | [A M] = [A, K L] (n n+d)
    g = C b + d (d) | h = J b - K d (n) | b (n) | L (d d) | r = 1 / diag L (d)
    P (n n), the filtered covariance before the step

    whitening    z = L^-1 (y - H x - g),    x <- [G K] (x, y) + h
    colouring    y = H x + g + L z,         x <- [A M] (x, z) + b

So a mean x has room for d numbers behind it: the reading on one side, the scores on the other.

One channel and one state on each side, the commonest case, has a row of nine numbers and carries
the predicted reading q = H x + g itself::

    G | u = H h + g - G g | v = H K | A | s = H b + g - A g | w = H M | L | r = 1 / L | P

    whitening    z = r (y - q),             q <- G q + (u + v y)
    colouring    y = q + L z,               q <- A q + (s + w z)

Together, with e = y - q: ~y = ~q + (L r) e and ~q <- A ~q + (s + (w r) e), so that the score itself
need not be computed.
"""

from math import sqrt


def gain_width(n, d):
    """Length of a gain row."""
    return 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d


def system_width(n, d):
    """Length of a system row."""
    return 2 * n * n + n + d * n + d + d * d


def workspace(n, d):
    """Length of the scratch space that one step needs, gains included."""
    return 4 * n * n + n * d + n + d


def gain_step(system, s, n, d, P, row, o, w):
    """Fill one gain row and move the filtered covariance `P` over one reading; 0, or l + 1 for a bad pivot."""
    sb = s + n * n
    sQ = sb + n
    sC = sQ + n * n
    sd = sC + d * n
    sR = sd + d
    m = n + d
    oH = o + n * m
    oA = oH + d * n
    og = oA + n * m
    oh = og + d
    ob = oh + n
    oL = ob + n
    orr = oL + d * d
    oP = orr + d
    oK = o + n
    oM = oA + n
    wJ = n * n
    wV = 2 * n * n
    wD = 4 * n * n
    for i in range(n):
        for j in range(n):
            row[oA + i * m + j] = system[s + i * n + j]
            row[oP + i * n + j] = P[i * n + j]
    for i in range(n):
        row[ob + i] = system[sb + i]
    predict_covariance(system, s, n, P, w)
    # w[0:] = Sigma_{k|k-1}; w[wD:] = C Sigma
    for i in range(d):
        for j in range(n):
            t = 0.0
            for e in range(n):
                t += system[sC + i * n + e] * w[e * n + j]
            w[wD + i * n + j] = t
    # L: lower Cholesky factor of S = C Sigma C' + R
    for i in range(d):
        for j in range(d):
            row[oL + i * d + j] = 0.0
    for i in range(d):
        for j in range(i + 1):
            t = 0.0
            for e in range(n):
                t += w[wD + i * n + e] * system[sC + j * n + e]
            t += system[sR + i * d + j]
            scale = t
            for e in range(j):
                t -= row[oL + i * d + e] * row[oL + j * d + e]
            if i == j:
                if not t > 1e-15 * scale or not t < 1e300:
                    return i + 1
                row[oL + i * d + i] = sqrt(t)
                row[orr + i] = 1.0 / row[oL + i * d + i]
            else:
                row[oL + i * d + j] = t * row[orr + j]
    # M = K L = Sigma C' L^-T, by forward substitution on L M' = C Sigma
    for i in range(n):
        for j in range(d):
            t = w[wD + j * n + i]
            for e in range(j):
                t -= row[oL + j * d + e] * row[oM + i * m + e]
            row[oM + i * m + j] = t * row[orr + j]
    # K = M L^-1, by back substitution on L' K' = M'
    for i in range(n):
        for j in range(d - 1, -1, -1):
            t = row[oM + i * m + j]
            for e in range(j + 1, d):
                t -= row[oL + e * d + j] * row[oK + i * m + e]
            row[oK + i * m + j] = t * row[orr + j]
    # J = I - K C
    for i in range(n):
        for j in range(n):
            t = 0.0
            for e in range(d):
                t += row[oK + i * m + e] * system[sC + e * n + j]
            w[wJ + i * n + j] = (1.0 if i == j else 0.0) - t
    # H = C A, g = C b + d
    for i in range(d):
        for j in range(n):
            t = 0.0
            for e in range(n):
                t += system[sC + i * n + e] * system[s + e * n + j]
            row[oH + i * n + j] = t
        t = 0.0
        for e in range(n):
            t += system[sC + i * n + e] * system[sb + e]
        row[og + i] = t + system[sd + i]
    # G = J A, h = J b - K d
    for i in range(n):
        for j in range(n):
            t = 0.0
            for e in range(n):
                t += w[wJ + i * n + e] * system[s + e * n + j]
            row[o + i * m + j] = t
        t = 0.0
        for e in range(n):
            t += w[wJ + i * n + e] * system[sb + e]
        for e in range(d):
            t -= row[oK + i * m + e] * system[sd + e]
        row[oh + i] = t
    # Joseph form: Sigma_{k|k} = J Sigma J' + K R K'
    for i in range(n):
        for j in range(n):
            t = 0.0
            for e in range(n):
                t += w[wJ + i * n + e] * w[e * n + j]
            w[wV + i * n + j] = t
    for i in range(n):
        for j in range(d):
            t = 0.0
            for e in range(d):
                t += row[oK + i * m + e] * system[sR + e * d + j]
            w[wD + i * d + j] = t
    for i in range(n):
        for j in range(i + 1):
            t = 0.0
            for e in range(n):
                t += w[wV + i * n + e] * w[wJ + j * n + e]
            for e in range(d):
                t += w[wD + i * d + e] * row[oK + j * m + e]
            P[i * n + j] = t
            P[j * n + i] = t
    return 0


def predict_covariance(system, s, n, P, w):
    """Sigma_{k|k-1} = A Sigma_{k-1|k-1} A' + Q, into w[0:n n]; uses w[3 n n:4 n n]."""
    sQ = s + n * n + n
    wT = 3 * n * n
    for i in range(n):
        for j in range(n):
            t = 0.0
            for e in range(n):
                t += system[s + i * n + e] * P[e * n + j]
            w[wT + i * n + j] = t
    for i in range(n):
        for j in range(i + 1):
            t = 0.0
            for e in range(n):
                t += w[wT + i * n + e] * system[s + j * n + e]
            t += system[sQ + i * n + j]
            w[i * n + j] = t
            w[j * n + i] = t


def same_covariance(P, ref, o, sigma, so, n, tolerance):
    """Whether `P` is the covariance at ref[o:], each entry beside the predicted variances at sigma[so:]."""
    for i in range(n):
        bound = tolerance * sqrt(sigma[so + i * n + i])
        for j in range(n):
            t = P[i * n + j] - ref[o + i * n + j]
            # written so that NaN and infinity never count as settled
            if not (t if t >= 0.0 else -t) <= bound * sqrt(sigma[so + j * n + j]):
                return False
    return True


def returned(P, row, o, ref, n, still):
    """Whether a carried covariance is back at `ref`, or rests as near to it as rounding lets it.

    The predicted covariance stands behind `ref`; the one before the step is at row[o:] if `still`.
    """
    if same_covariance(P, ref, 0, ref, n * n, n, 1e-15):
        return True
    return (
        still
        and same_covariance(P, row, o, ref, n * n, n, 2.3e-16)
        and same_covariance(P, ref, 0, ref, n * n, n, 1e-14)
    )


def fill_table(system, varying, n, d, P, table, first, stop, tolerance, w):
    """Gain rows first..stop-1; returns (rows filled, converged, bad pivot).

    A constant system stops early once the covariance no longer moves: the last row is then the
    frozen one.
    """
    width = 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
    stride = (2 * n * n + n + d * n + d + d * d) if varying else 0
    for k in range(first, stop):
        bad = gain_step(system, (k - first) * stride, n, d, P, table, k * width, w)
        if bad:
            return k, False, bad
        if not varying and same_covariance(P, table, (k + 1) * width - n * n, w, 0, n, tolerance):
            return k + 1, True, 0
    return stop, False, 0


def products(row, o, rows, columns, x, out, oo):
    """out[oo + i] = sum_j row[o + i columns + j] x[j], two rows at a time."""
    for i in range(0, rows - 1, 2):
        p = o + i * columns
        q = p + columns
        v = x[0]
        t = row[p] * v
        u = row[q] * v
        for j in range(1, columns):
            v = x[j]
            t += row[p + j] * v
            u += row[q + j] * v
        out[oo + i] = t
        out[oo + i + 1] = u
    if rows % 2:
        p = o + (rows - 1) * columns
        t = row[p] * x[0]
        for j in range(1, columns):
            t += row[p + j] * x[j]
        out[oo + rows - 1] = t


def score_step(row, o, n, d, y, yo, x, z, zo, w):
    """Feedforward: z = L^-1 (y - H x - g) into z[zo:], then x <- [G K] (x, y) + h."""
    oH = o + n * (n + d)
    og = oH + d * n + n * (n + d)
    oh = og + d
    oL = oh + 2 * n
    orr = oL + d * d
    for i in range(d):
        x[n + i] = y[yo + i]
    products(row, o, n, n + d, x, w, 0)
    products(row, oH, d, n, x, w, n)
    for i in range(d):
        t = y[yo + i] - (w[n + i] + row[og + i])
        for j in range(i):
            t -= row[oL + i * d + j] * z[zo + j]
        z[zo + i] = t * row[orr + i]
    for i in range(n):
        x[i] = w[i] + row[oh + i]


def emit_step(row, o, n, d, x, y, yo, w):
    """Feedback, with the scores in x[n:]: y = H x + g + L z, then x <- [A M] (x, z) + b."""
    oH = o + n * (n + d)
    oA = oH + d * n
    og = oA + n * (n + d)
    ob = og + d + n
    oL = ob + n
    products(row, oH, d, n, x, w, 0)
    products(row, oA, n, n + d, x, w, d)
    for i in range(d):
        u = row[oL + i * d] * x[n]
        for j in range(1, i + 1):
            u += row[oL + i * d + j] * x[n + j]
        y[yo + i] = (w[i] + row[og + i]) + u
    for i in range(n):
        x[i] = w[d + i] + row[ob + i]


def run(y, out, first, stop, d, source, n, x, target, m, xt, index, w):
    """Disguise rows first..stop-1 along two gain tables; stops before the first row that is not finite."""
    width = 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
    widtht = 3 * m * m + 3 * m * d + 2 * m + d * d + 2 * d
    last = len(source) // width - 1
    lastt = len(target) // widtht - 1
    for k in range(first, stop):
        for i in range(d):
            t = y[k * d + i]
            if not t - t == 0.0:
                return k
        j = index + (k - first)
        score_step(source, (j if j < last else last) * width, n, d, y, k * d, x, xt, m, w)
        emit_step(target, (j if j < lastt else lastt) * widtht, m, d, xt, out, k * d, w)
    return stop


def fill_scalar(system, P, table, first, stop, tolerance):
    """`fill_table` for the rows of the scalar loops; returns (rows filled, converged, bad pivot, P)."""
    A, b, Q, C, d, R = system[0], system[1], system[2], system[3], system[4], system[5]
    H = C * A
    g = C * b + d
    s = H * b + g - A * g
    for k in range(first, stop):
        sigma = A * P * A + Q
        S = C * sigma * C + R
        if not S > 0.0 or not S < 1e300:
            return k, False, 1, P
        L = sqrt(S)
        r = 1.0 / L
        M = sigma * C * r
        K = M * r
        J = 1.0 - K * C
        G = J * A
        o = k * 9
        table[o] = G
        table[o + 1] = H * (J * b - K * d) + g - G * g
        table[o + 2] = H * K
        table[o + 3] = A
        table[o + 4] = s
        table[o + 5] = H * M
        table[o + 6] = L
        table[o + 7] = r
        table[o + 8] = P
        t = P
        P = J * sigma * J + K * R * K
        t = t - P
        if t <= tolerance * sigma and -t <= tolerance * sigma:
            return k + 1, True, 0, P
    return stop, False, 0, P


def rounded(t, scale, n, m, most):
    """The nearest multiple of n / m = 1 / scale, at most `most` of them; NaN stays.

    Adding and taking off 2^52 rounds to whole numbers, half to even, and leaves no -0.0.
    """
    big = 4503599627370496.0
    t = t * scale
    t = most if t > most else (-most if t < -most else t)
    return ((t + big) - big if t >= 0.0 else (t - big) + big) * n / m


def round_to_lattice(y, scale, n, m, most, shift):
    """Round every number to a multiple of n / m = 1 / scale, at most `most` of them; `shift` as in `run_scalar`."""
    half = shift / 3.0
    for k in range(len(y)):
        t = y[k]
        if shift != 0.0:
            y[k] = (t + shift) - shift
            if -half < t < half:
                continue
        y[k] = rounded(y[k], scale, n, m, most)


def run_scalar(y, out, first, stop, source, q, target, qt, index, shift):
    """`run` along scalar rows, `q` and `qt` being the predicted readings; returns (row, q, ~q, overflow).

    `overflow` is 0.0 as long as every output is finite, and NaN after one that is not. With a shift of 1.5 * 2^52 steps
    outputs are rounded to that step, a power of two, by putting it on and taking it off again; the recursion goes on
    unrounded. For outputs of 2^51 steps or more that is not enough: `overflow` is NaN after them too.
    """
    # 2^51 steps become infinite
    far = 0.0 if shift == 0.0 else 1.7976931348623157e308 / (shift / 3.001)
    last = len(source) // 9 - 1
    lastt = len(target) // 9 - 1
    overflow = 0.0
    k = first
    while k < stop:
        j = index + (k - first)
        i = (j if j < last else last) * 9
        it = (j if j < lastt else lastt) * 9
        G, u, v, r = source[i], source[i + 1], source[i + 2], source[i + 7]
        A, s, w, L = target[it + 3], target[it + 4], target[it + 5] * r, target[it + 6] * r
        # one row of the table, or all that is left once both are frozen
        end = stop if j >= last and j >= lastt else k + 1
        if shift != 0.0:
            while k < end:
                t = y[k]
                if not t - t == 0.0:
                    return k, q, qt, overflow
                e = t - q
                q = G * q + (u + v * t)
                t = qt + L * e
                qt = A * qt + (s + w * e)
                out[k] = (t + shift) - shift
                t = t * far
                overflow += t - t
                k += 1
        else:
            while k < end:
                t = y[k]
                if not t - t == 0.0:
                    return k, q, qt, overflow
                e = t - q
                q = G * q + (u + v * t)
                t = qt + L * e
                out[k] = t
                overflow += t - t
                qt = A * qt + (s + w * e)
                k += 1
    return stop, q, qt, overflow


DONE, BACK_ON_TABLE, INFINITE, BAD_SOURCE, BAD_TARGET = range(5)


def run_off_table(
    y, out, scale, first, stop, d, partial, source, which, n, x, P, ref, target, whicht, m, xt, Pt, reft, channels, w
):
    """Disguise rows first..stop-1 with the covariances carried along; returns (row, why it stopped).

    Here go the readings after a gap, the gaps themselves and systems that change with time. Row k
    uses the system row `which[k]` (a single entry serves every row). `scale[k]`, unless empty,
    becomes the Jacobian of the scores of row k. Once both covariances are back at `ref` and `reft`
    (unless empty; each with the predicted covariance behind it) the caller can go on with the tables.
    `channels` is room for d integers.
    """
    sw = 2 * n * n + n + d * n + d + d * d
    swt = 2 * m * m + m + d * m + d + d * d
    width = 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
    widtht = 3 * m * m + 3 * m * d + 2 * m + d * d + 2 * d
    part = w[:d]
    part_out = w[d : 2 * d]
    row = w[2 * d : 2 * d + width]
    rowt = w[2 * d + width : 2 * d + width + widtht]
    reduced = w[2 * d + width + widtht : 2 * d + width + widtht + sw + swt]
    work = w[2 * d + width + widtht + sw + swt :]
    nan = float("nan")
    for k in range(first, stop):
        s = which[k if len(which) > 1 else 0] * sw
        st = whicht[k if len(whicht) > 1 else 0] * swt
        seen = 0
        for i in range(d):
            t = y[k * d + i]
            if t - t == 0.0:
                channels[seen] = i
                seen += 1
            elif t == t:
                return k, INFINITE
        if seen == d:
            if gain_step(source, s, n, d, P, row, 0, work):
                return k, BAD_SOURCE
            if gain_step(target, st, m, d, Pt, rowt, 0, work):
                return k, BAD_TARGET
            score_step(row, 0, n, d, y, k * d, x, xt, m, work)
            emit_step(rowt, 0, m, d, xt, out, k * d, work)
        elif seen > 0 and partial:
            for i in range(seen):
                part[i] = y[k * d + channels[i]]
            reduce_system(source, s, n, d, channels, seen, reduced)
            if gain_step(reduced, 0, n, seen, P, row, 0, work):
                return k, BAD_SOURCE
            score_step(row, 0, n, seen, part, 0, x, xt, m, work)
            reduce_system(target, st, m, d, channels, seen, reduced)
            if gain_step(reduced, 0, m, seen, Pt, rowt, 0, work):
                return k, BAD_TARGET
            emit_step(rowt, 0, m, seen, xt, part_out, 0, work)
            for i in range(d):
                out[k * d + i] = nan
            for i in range(seen):
                out[k * d + channels[i]] = part_out[i]
        else:
            seen = 0
            skip_step(source, s, n, x, P, work)
            skip_step(target, st, m, xt, Pt, work)
            for i in range(d):
                out[k * d + i] = nan
        if len(scale) > 0:
            t = 1.0
            width_seen = 3 * n * n + 3 * n * seen + 2 * n + seen * seen + 2 * seen
            for i in range(seen):
                t *= row[width_seen - n * n - seen + i]
            scale[k] = t
        if (
            len(ref) > 0
            and returned(P, row, width - n * n, ref, n, seen == d)
            and returned(Pt, rowt, widtht - m * m, reft, m, seen == d)
        ):
            return k + 1, BACK_ON_TABLE
    return stop, DONE


def skip_step(system, s, n, x, P, w):
    """A missing reading: x <- A x + b, P <- A P A' + Q."""
    for i in range(n):
        t = 0.0
        for j in range(n):
            t += system[s + i * n + j] * x[j]
        w[i] = t + system[s + n * n + i]
    for i in range(n):
        x[i] = w[i]
    predict_covariance(system, s, n, P, w)
    for i in range(n * n):
        P[i] = w[i]


def reduce_system(system, s, n, d, channels, count, out):
    """The system row as seen through the channels[:count]."""
    head = 2 * n * n + n
    for i in range(head):
        out[i] = system[s + i]
    for i in range(count):
        for j in range(n):
            out[head + i * n + j] = system[s + head + channels[i] * n + j]
        out[head + count * n + i] = system[s + head + d * n + channels[i]]
        for j in range(count):
            out[head + count * n + count + i * count + j] = system[s + head + d * n + d + channels[i] * d + channels[j]]


class ScalarStep:
    """One reading at a time along two scalar gain tables; anything unusual goes to `slow`."""

    def __init__(self, source, target, limit, frozen, slow):
        self.source = source
        self.target = target
        self.last = len(source) // 9 - 1
        self.lastt = len(target) // 9 - 1
        self.limit = limit
        self.frozen = frozen
        self.slow = slow

    def step(self, state, y):
        """(state, y) -> (state, y_out); state = (index, q, ~q)."""
        if type(state) is not tuple or len(state) != 3 or not isinstance(y, float):
            return self.slow(state, y)
        if type(state[0]) is not int or type(state[1]) is not float or type(state[2]) is not float:
            return self.slow(state, y)
        try:
            j, q, qt = state
        except OverflowError:  # a number of a step beyond the machine's integers
            return self.slow(state, y)
        if j < 0 or j >= self.limit:
            return self.slow(state, y)
        t = float(y)
        i = j * 9 if j < self.last else self.last * 9
        it = j * 9 if j < self.lastt else self.lastt * 9
        e = t - q
        r = self.source[i + 7]
        out = qt + self.target[it + 6] * r * e
        q = self.source[i] * q + (self.source[i + 1] + self.source[i + 2] * t)
        qt = self.target[it + 3] * qt + (self.target[it + 4] + self.target[it + 5] * r * e)
        # a missing or infinite reading, or an overflow, shows in the sum
        t = out + q + qt
        if not t - t == 0.0:
            return self.slow(state, y)
        return (j if j == self.frozen else j + 1, q, qt), out


OK, RANGE, COARSE = range(3)


def is_coarse(y):
    """Whether a reading has at most six decimals or 24 bits, up to rounding (as `release.Watch` finds it)."""
    t = y * 1e6
    # 1.5 * 2^52 put on and taken off rounds to a whole number; Veltkamp's splitting leaves the upper 24 bits
    if -1125899906842624.0 < t < 1125899906842624.0:
        t = t - ((t + 6755399441055744.0) - 6755399441055744.0)
        if -1e-7 < t < 1e-7:
            return True
    t = y * 536870913.0
    return t - (t - y) == y


def watch_reading(y, room, watch):
    """Count readings of a room in a row that are coarse; True at the 64th, which stays there."""
    if not y - y == 0.0:
        return False
    if not is_coarse(y):
        if watch[room] != 0:
            watch[room] = 0
        return False
    if watch[room] >= 63:
        return True
    watch[room] += 1
    return False


def run_rooms_scalar(
    y, out, why, room, steps, source, draw, change,
    rooms, index, state, sources, draws, readings, released, watch, watched,
    table, first, last, system, line, tablet, firstt, lastt, systemt, linet,
):  # fmt: skip
    """Disguise one reading of one room after the other, each along its own pair of scalar models.

    Row r is a reading of `room[r]`, `steps[r]` slots after the last one of the room, under the values `source[r]` and
    `draw[r]`; `change[r]` is 1 where an epoch begins. Column i of `state` (4 rows of `rooms` numbers) holds the filters
    of room i: q, ~q along the tables; x, ~x, P, ~P off them, where `index[i]` is -1 - index. A room without readings
    starts. Row s of `line` holds H, g, the settled P, the root of the settled sigma, and q before the first reading.
    The arithmetic, and so each bit, is that of `run_scalar` and `run_off_table`. `why[r]` is OK, or tells why nothing
    of row r happened.
    """
    nan = float("nan")
    for r in range(len(y)):
        i = room[r]
        value = y[r]
        if watched and watch_reading(value, i, watch):
            out[r] = nan
            why[r] = COARSE
            continue
        s = source[r]
        d = draw[r]
        skips = steps[r]
        j = index[i]
        if j >= last[s] and j >= lastt[d] and value == value and skips == 1 and change[r] == 0 and s == sources[i]:
            # settled, and nothing unusual: most rows
            o = 9 * (first[s] + last[s])
            ot = 9 * (firstt[d] + lastt[d])
            x = state[i]
            xt = state[rooms + i]
            q = table[o + 7]
            e = value - x
            t = xt + tablet[ot + 6] * q * e
            x = table[o] * x + (table[o + 1] + table[o + 2] * value)
            xt = tablet[ot + 3] * xt + (tablet[ot + 4] + tablet[ot + 5] * q * e)
            q = x + xt + t
            if q - q == 0.0 and readings[i] > 0:
                why[r] = OK
                out[r] = t
                state[i] = x
                state[rooms + i] = xt
                readings[i] += 1
                released[i] += 1
                continue
        if readings[i] == 0:
            j = 0
            x = line[5 * s + 4]
            xt = linet[5 * d + 4]
            P = 0.0
            Pt = 0.0
            a = s
            b = d
            skips = 0
        else:
            x = state[i]
            xt = state[rooms + i]
            P = state[2 * rooms + i]
            Pt = state[3 * rooms + i]
            a = sources[i]
            b = draws[i]
            skips -= 1
        t = 0.0
        while skips >= 0:
            # the slots that stayed empty first, under the old values; then the reading, under the new ones
            v = value if skips == 0 else nan
            if j >= 0 and (v != v or (readings[i] > 0 and (change[r] or s != a))):
                P = table[9 * (first[a] + (j if j < last[a] else last[a])) + 8]
                Pt = tablet[9 * (firstt[b] + (j if j < lastt[b] else lastt[b])) + 8]
                x = (x - line[5 * a + 1]) / line[5 * a] if line[5 * a] != 0.0 else 0.0
                xt = (xt - linet[5 * b + 1]) / linet[5 * b] if linet[5 * b] != 0.0 else 0.0
                j = -1 - j
            if skips == 0:
                a = s
                b = d
            if j >= 0:
                o = 9 * (first[a] + (j if j < last[a] else last[a]))
                ot = 9 * (firstt[b] + (j if j < lastt[b] else lastt[b]))
                q = table[o + 7]
                e = v - x
                x = table[o] * x + (table[o + 1] + table[o + 2] * v)
                t = xt + tablet[ot + 6] * q * e
                xt = tablet[ot + 3] * xt + (tablet[ot + 4] + tablet[ot + 5] * q * e)
                j += 1
                k = last[a] if last[a] > lastt[b] else lastt[b]
                j = k if j > k else j
            else:
                o = 6 * a
                ot = 6 * b
                A = system[o]
                At = systemt[ot]
                # what gain_step, score_step, emit_step and skip_step do for one state and one channel
                S = (0.0 + (0.0 + A * P) * A) + system[o + 2]
                St = (0.0 + (0.0 + At * Pt) * At) + systemt[ot + 2]
                if v != v:
                    x = (0.0 + A * x) + system[o + 1]
                    xt = (0.0 + At * xt) + systemt[ot + 1]
                    t = nan
                    p = P
                    pt = Pt
                    P = S
                    Pt = St
                else:
                    C = system[o + 3]
                    w = 0.0 + C * S
                    q = (0.0 + w * C) + system[o + 5]
                    if not q > 1e-15 * q or not q < 1e300:
                        t = nan
                        x = nan
                        break
                    L = sqrt(q)
                    q = 1.0 / L
                    K = (w * q) * q
                    J = 1.0 - (0.0 + K * C)
                    e = (v - ((0.0 + C * A) * x + ((0.0 + C * system[o + 1]) + system[o + 4]))) * q
                    x = ((0.0 + J * A) * x + K * v) + ((0.0 + J * system[o + 1]) - K * system[o + 4])
                    p = P
                    P = (0.0 + (0.0 + J * S) * J) + (0.0 + K * system[o + 5]) * K
                    C = systemt[ot + 3]
                    w = 0.0 + C * St
                    q = (0.0 + w * C) + systemt[ot + 5]
                    if not q > 1e-15 * q or not q < 1e300:
                        t = nan
                        x = nan
                        break
                    L = sqrt(q)
                    q = 1.0 / L
                    w = w * q
                    K = w * q
                    J = 1.0 - (0.0 + K * C)
                    t = ((0.0 + C * At) * xt + ((0.0 + C * systemt[ot + 1]) + systemt[ot + 4])) + L * e
                    xt = (At * xt + w * e) + systemt[ot + 1]
                    pt = Pt
                    Pt = (0.0 + (0.0 + J * St) * J) + (0.0 + K * systemt[ot + 5]) * K
                j -= 1
                if scalar_returned(P, p, line[5 * a + 2], line[5 * a + 3], v == v) and scalar_returned(
                    Pt, pt, linet[5 * b + 2], linet[5 * b + 3], v == v
                ):
                    j = last[a] if last[a] > lastt[b] else lastt[b]
                    x = line[5 * a] * x + line[5 * a + 1]
                    xt = linet[5 * b] * xt + linet[5 * b + 1]
            skips -= 1
        q = x + xt + P + Pt
        if value == value:
            q += t
        if not q - q == 0.0:
            out[r] = nan
            why[r] = RANGE
            continue
        why[r] = OK
        out[r] = t
        index[i] = j
        state[i] = x
        state[rooms + i] = xt
        state[2 * rooms + i] = P if j < 0 else 0.0
        state[3 * rooms + i] = Pt if j < 0 else 0.0
        sources[i] = s
        draws[i] = d
        readings[i] += steps[r]
        if value == value:
            released[i] += 1


def scalar_returned(P, before, settled, root, still):
    """`returned` for one state."""
    t = P - settled
    t = t if t >= 0.0 else -t
    if t <= 1e-15 * root * root:
        return True
    if not still or not t <= 1e-14 * root * root:
        return False
    t = P - before
    return (t if t >= 0.0 else -t) <= 2.3e-16 * root * root


def run_rooms(
    y, out, why, room, steps, source, draw, change,
    rooms, index, state, sources, draws, readings, released, watch, watched,
    d, n, table, first, last, system, settled, start, m, tablet, firstt, lastt, systemt, settledt, startt, w,
):  # fmt: skip
    """The same for models of any number of states and channels; readings are rows of d numbers.

    A column of `state` holds both means and both covariances. Row s of `settled` holds the settled covariance and the
    one predicted from it, row s of `start` the mean before the first reading. `watched[c]` says whether channel c is
    to be full doubles.
    """
    nan = float("nan")
    width = 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
    widtht = 3 * m * m + 3 * m * d + 2 * m + d * d + 2 * d
    sw = 2 * n * n + n + d * n + d + d * d
    swt = 2 * m * m + m + d * m + d + d * d
    x = w[: n + d]
    xt = w[n + d : n + m + 2 * d]
    h = n + m + 2 * d
    P = w[h : h + n * n]
    h += n * n
    Pt = w[h : h + m * m]
    h += m * m
    row = w[h : h + width]
    h += width
    rowt = w[h : h + widtht]
    h += widtht
    work = w[h:]
    for r in range(len(room)):
        i = room[r]
        missing = False
        coarse = False
        for c in range(d):
            t = y[r * d + c]
            out[r * d + c] = nan
            if t != t:
                missing = True
        if not missing:
            for c in range(d):
                if watched[c] and is_coarse(y[r * d + c]):
                    coarse = True
            if not coarse:
                watch[i] = 0
            elif watch[i] >= 63:
                why[r] = COARSE
                continue
            else:
                watch[i] += 1
        s = source[r]
        b = draw[r]
        skips = steps[r] - 1
        if readings[i] == 0:
            j = 0
            skips = 0
            for e in range(n):
                x[e] = start[s * n + e]
            for e in range(m):
                xt[e] = startt[b * m + e]
        else:
            j = index[i]
            for e in range(n):
                x[e] = state[e * rooms + i]
            for e in range(m):
                xt[e] = state[(n + e) * rooms + i]
            for e in range(n * n):
                P[e] = state[(n + m + e) * rooms + i]
            for e in range(m * m):
                Pt[e] = state[(n + m + n * n + e) * rooms + i]
        a = s if readings[i] == 0 else sources[i]
        bt = b if readings[i] == 0 else draws[i]
        bad = False
        while skips >= 0:
            leave = j >= 0 and (skips > 0 or missing or (readings[i] > 0 and (change[r] or s != a)))
            if leave:
                h = (first[a] + (j if j < last[a] else last[a]) + 1) * width - n * n
                for e in range(n * n):
                    P[e] = table[h + e]
                h = (firstt[bt] + (j if j < lastt[bt] else lastt[bt]) + 1) * widtht - m * m
                for e in range(m * m):
                    Pt[e] = tablet[h + e]
                j = -1 - j
            if skips == 0:
                a = s
                bt = b
            if j >= 0:
                score_step(table, (first[a] + (j if j < last[a] else last[a])) * width, n, d, y, r * d, x, xt, m, work)
                emit_step(
                    tablet, (firstt[bt] + (j if j < lastt[bt] else lastt[bt])) * widtht, m, d, xt, out, r * d, work
                )
                j += 1
                h = last[a] if last[a] > lastt[bt] else lastt[bt]
                j = h if j > h else j
            else:
                seen = skips == 0 and not missing
                if seen:
                    if gain_step(system, a * sw, n, d, P, row, 0, work) or gain_step(
                        systemt, bt * swt, m, d, Pt, rowt, 0, work
                    ):
                        bad = True
                        break
                    score_step(row, 0, n, d, y, r * d, x, xt, m, work)
                    emit_step(rowt, 0, m, d, xt, out, r * d, work)
                else:
                    skip_step(system, a * sw, n, x, P, work)
                    skip_step(systemt, bt * swt, m, xt, Pt, work)
                j -= 1
                if returned(P, row, width - n * n, settled[2 * a * n * n :], n, seen) and returned(
                    Pt, rowt, widtht - m * m, settledt[2 * bt * m * m :], m, seen
                ):
                    j = last[a] if last[a] > lastt[bt] else lastt[bt]
            skips -= 1
        t = 0.0
        for e in range(n):
            t += x[e]
        for e in range(m):
            t += xt[e]
        if j < 0:
            for e in range(n * n):
                t += P[e]
            for e in range(m * m):
                t += Pt[e]
        if not missing:
            for c in range(d):
                t += out[r * d + c]
        if bad or not t - t == 0.0:
            for c in range(d):
                out[r * d + c] = nan
            why[r] = RANGE
            continue
        why[r] = OK
        index[i] = j
        for e in range(n):
            state[e * rooms + i] = x[e]
        for e in range(m):
            state[(n + e) * rooms + i] = xt[e]
        for e in range(n * n):
            state[(n + m + e) * rooms + i] = P[e] if j < 0 else 0.0
        for e in range(m * m):
            state[(n + m + n * n + e) * rooms + i] = Pt[e] if j < 0 else 0.0
        sources[i] = s
        draws[i] = b
        readings[i] += steps[r]
        if not missing:
            released[i] += 1
