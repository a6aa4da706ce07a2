"""The hot loops of the Gauss-Markov transformation for many sensors at once.

The same rows, the same sums in the same order and so the same bits as in `_kernels.py`, with all
sensors in the innermost loop. A module of its own because it is compiled otherwise: these loops
are long and want vector instructions, those over a few states and channels are slowed by them.
"""


def run_scalar_many(y, out, steps, sensors, source, q, target, qt, index):
    """`run_scalar` for many sensors at once, time first: the same bits for each of them."""
    last = len(source) // 9 - 1
    lastt = len(target) // 9 - 1
    k = 0
    while k < steps:
        j = index + k
        i = (j if j < last else last) * 9
        it = (j if j < lastt else lastt) * 9
        G, u, v, r = source[i], source[i + 1], source[i + 2], source[i + 7]
        A, s, w, L = target[it + 3], target[it + 4], target[it + 5] * r, target[it + 6] * r
        if j >= last and j >= lastt and k + 4 <= steps and sensors >= 8:  # settled: four steps in one pass
            for n in range(sensors):
                p = q[n]
                pt = qt[n]
                o = k * sensors + n
                for _ in range(4):
                    t = y[o]
                    e = t - p
                    p = G * p + (u + v * t)
                    out[o] = pt + L * e
                    pt = A * pt + (s + w * e)
                    o += sensors
                q[n] = p
                qt[n] = pt
            k += 4
        else:
            o = k * sensors
            for n in range(sensors):
                t = y[o + n]
                p = q[n]
                pt = qt[n]
                e = t - p
                q[n] = G * p + (u + v * t)
                out[o + n] = pt + L * e
                qt[n] = A * pt + (s + w * e)
            k += 1


def run_many(y, out, steps, sensors, d, source, n, x, target, m, xt, index, w):
    """`run` for many sensors at once, arrays (time, channel, sensor) and (state and room, sensor)."""
    width = 3 * n * n + 3 * n * d + 2 * n + d * d + 2 * d
    widtht = 3 * m * m + 3 * m * d + 2 * m + d * d + 2 * d
    last = len(source) // width - 1
    lastt = len(target) // widtht - 1
    for k in range(steps):
        j = index + k
        o = k * d * sensors
        score_many(source, (j if j < last else last) * width, n, d, sensors, y, o, x, xt, m * sensors, w)
        emit_many(target, (j if j < lastt else lastt) * widtht, m, d, sensors, xt, out, o, w)


def products_many(row, o, rows, columns, sensors, x, xo, out, oo):
    """`products` for many sensors, whose values stand side by side."""
    for i in range(rows):
        p = oo + i * sensors
        f = row[o + i * columns]
        for s in range(sensors):
            out[p + s] = f * x[xo + s]
        for j in range(1, columns):
            f = row[o + i * columns + j]
            q = xo + j * sensors
            for s in range(sensors):
                out[p + s] += f * x[q + s]


def score_many(row, o, n, d, sensors, y, yo, x, z, zo, w):
    """`score_step` for many sensors."""
    oH = o + n * (n + d)
    og = oH + d * n + n * (n + d)
    oh = og + d
    oL = oh + 2 * n
    orr = oL + d * d
    for s in range(d * sensors):
        x[n * sensors + s] = y[yo + s]
    products_many(row, o, n, n + d, sensors, x, 0, w, 0)
    products_many(row, oH, d, n, sensors, x, 0, w, n * sensors)
    for i in range(d):
        p = i * sensors
        q = zo + p
        f = row[og + i]
        for s in range(sensors):
            z[q + s] = y[yo + p + s] - (w[n * sensors + p + s] + f)
        for j in range(i):
            f = row[oL + i * d + j]
            for s in range(sensors):
                z[q + s] -= f * z[zo + j * sensors + s]
        f = row[orr + i]
        for s in range(sensors):
            z[q + s] *= f
    for i in range(n):
        p = i * sensors
        f = row[oh + i]
        for s in range(sensors):
            x[p + s] = w[p + s] + f


def emit_many(row, o, n, d, sensors, x, y, yo, w):
    """`emit_step` for many sensors."""
    oH = o + n * (n + d)
    oA = oH + d * n
    og = oA + n * (n + d)
    ob = og + d + n
    oL = ob + n
    wL = (d + n) * sensors
    products_many(row, oH, d, n, sensors, x, 0, w, 0)
    products_many(row, oA, n, n + d, sensors, x, 0, w, d * sensors)
    for i in range(d):
        p = i * sensors
        products_many(row, oL + i * d, 1, i + 1, sensors, x, n * sensors, w, wL)  # row i of L z
        f = row[og + i]
        for s in range(sensors):
            y[yo + p + s] = (w[p + s] + f) + w[wL + s]
    for i in range(n):
        p = i * sensors
        f = row[ob + i]
        for s in range(sensors):
            x[p + s] = w[d * sensors + p + s] + f
