"""The hot loop of the grey-box candidate: the smoothed law of a chain of normal states, and sums of its covariances.

Node k has a state x_k of d numbers. The precision of all states given the readings is block tridiagonal: M_k on the
diagonal and -N_k below it, where N_k = 0 before the first node of a segment. Elimination from the first node on and
substitution from the last one give::

    P_k = (M_k - H_{k-1} N_{k-1}')^-1,    H_k = N_k P_k,    e_k = r_k + H_{k-1} e_{k-1}
    x_k = P_k e_k + H_k' x_{k+1},         S_k = P_k + H_k' S_{k+1} H_k,      cov(x_{k+1}, x_k) = S_{k+1} H_k

Arrays are flat, in rows. Ordinary Python; the types for the compiler stand in the `.pxd` of the same name.
"""

import math


def invert(M, P, o, d, K):
    """P[o:] <- M^-1 by Cholesky; the logarithm of det M, infinity where M is not positive definite. K is workspace."""
    total = 0.0
    for i in range(d):
        for j in range(i + 1):
            t = M[i * d + j]
            for l in range(j):
                t -= K[i * d + l] * K[j * d + l]
            if i > j:
                K[i * d + j] = t / K[j * d + j]
            elif t > 0.0:
                K[i * d + i] = math.sqrt(t)
                total += math.log(t)
            else:
                return math.inf
    # the inverse of the factor, in its place
    for i in range(d):
        K[i * d + i] = 1.0 / K[i * d + i]
        for j in range(i):
            t = 0.0
            for l in range(j, i):
                t -= K[i * d + l] * K[l * d + j]
            K[i * d + j] = t * K[i * d + i]
    for i in range(d):
        for j in range(i + 1):
            t = 0.0
            for l in range(i, d):
                t += K[l * d + i] * K[l * d + j]
            P[o + i * d + j] = t
            P[o + j * d + i] = t
    return total


def smooth(n, d, group, seen, Y, precision, Qi, AQA, QA, Qb, AQb, first, mean, x, own, before, cross, variance, work):
    """Smoothed means x (n, d) and sums of covariances of each group; returns the log-determinant, or infinity.

    `group` is that of the row of a node, -1 at the node before a segment; `seen` whether the row has a reading. For
    each group: Q^-1, A'Q^-1 A, Q^-1 A, Q^-1 b and A'Q^-1 b, and the precision of the readings; `first` and `mean` are
    those of the node before a segment, `mean` times its precision. Sums over the rows of a group: `own` of S_k,
    `before` of S_{k-1}, `cross` of cov(x_k, x_{k-1}), and `variance` the diagonal of S_k where there is a reading.
    """
    m = d * d
    P = work[: n * m]
    H = work[n * m : 2 * n * m]
    M = work[2 * n * m : 2 * n * m + m]
    K = work[2 * n * m + m : 2 * n * m + 2 * m]
    S = work[2 * n * m + 2 * m : 2 * n * m + 3 * m]
    total = 0.0
    for k in range(n):
        g = group[k]
        o, at, row = k * m, g * m, k * d
        for i in range(d):
            x[row + i] = mean[i] if g < 0 else Qb[g * d + i]
            for j in range(d):
                M[i * d + j] = first[i * d + j] if g < 0 else Qi[at + i * d + j]
        if g >= 0:
            if seen[k]:
                for i in range(d):
                    M[i * d + i] += precision[g * d + i]
                    x[row + i] += precision[g * d + i] * Y[row + i]
            # what the node before says: H_{k-1} N_{k-1}' and H_{k-1} e_{k-1}
            for i in range(d):
                for j in range(i + 1):
                    t = 0.0
                    for l in range(d):
                        t += H[o - m + i * d + l] * QA[at + j * d + l]
                    M[i * d + j] -= t
                t = 0.0
                for l in range(d):
                    t += H[o - m + i * d + l] * x[row - d + l]
                x[row + i] += t
        if k + 1 < n and group[k + 1] >= 0:
            at = group[k + 1] * m
            for i in range(d):
                x[row + i] -= AQb[group[k + 1] * d + i]
                for j in range(i + 1):
                    M[i * d + j] += AQA[at + i * d + j]
        total += invert(M, P, o, d, K)
        if not total < math.inf:
            return math.inf
        if k + 1 < n and group[k + 1] >= 0:
            for i in range(d):
                for j in range(d):
                    t = 0.0
                    for l in range(d):
                        t += QA[at + i * d + l] * P[o + l * d + j]
                    H[o + i * d + j] = t
    for k in range(n - 1, -1, -1):
        o, row = k * m, k * d
        # x_k = P_k e_k, and S_k, on from the node after it where there is one in the segment
        for i in range(d):
            t = 0.0
            for l in range(d):
                t += P[o + i * d + l] * x[row + l]
            K[i] = t
        for i in range(d):
            x[row + i] = K[i]
        if k + 1 < n and group[k + 1] >= 0:
            at = group[k + 1] * m
            for i in range(d):
                t = 0.0
                for l in range(d):
                    t += H[o + l * d + i] * x[row + d + l]
                x[row + i] += t
            for i in range(d):
                for j in range(d):
                    t = 0.0
                    for l in range(d):
                        t += S[i * d + l] * H[o + l * d + j]
                    K[i * d + j] = t
                    cross[at + i * d + j] += t
            for i in range(d):
                for j in range(i + 1):
                    t = P[o + i * d + j]
                    for l in range(d):
                        t += H[o + l * d + i] * K[l * d + j]
                    S[i * d + j] = t
                    S[j * d + i] = t
            for i in range(m):
                before[at + i] += S[i]
        else:
            for i in range(m):
                S[i] = P[o + i]
        g = group[k]
        if g >= 0:
            for i in range(m):
                own[g * m + i] += S[i]
            if seen[k]:
                for i in range(d):
                    variance[g * d + i] += S[i * d + i]
    return total
