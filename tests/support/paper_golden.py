"""What the numbers of the paper's results must be, and how nearly, whatever the seed and the settings."""

GOLDEN = {
    "claims": {
        "distortion_at_0.3": (17.346, 0.0005),
        "distortion_at_0": (64.924, 0.0005),
        "bound_factor": (74.39, 0.01),
        "consistent_error_at_0.3": (0.1336, 5e-05),
        "consistent_error_at_0.68": (0.001796, 5e-07),
        "printed_error_at_ln2": (0.1719, 5e-05),
        "does_not_hold": (1, 0),
    },
    "estimates": {
        "consistent_theta1_raw_mean": (1.0, 1e-09),
        "printed_theta1_raw_mean": (0.5428, 0.0001),
        "printed_theta2_raw_mean": (1.6284, 0.0001),
        "printed_b_for_last_reading": (9.211, 0.001),
    },
    "tradeoff": {
        "absolute_percent_at_0.30": (17.346, 0.0005),
        "absolute_percent_at_0.00": (64.924, 0.0005),
        "absolute_percent_at_ln2": (0.0, 1e-06),
        "squared_rms_percent_at_0.00": (70.839, 0.0005),
        "squared_rms_percent_at_0.30": (47.998, 0.0005),
    },
    "adversary": {
        "exact_at_0.3": (0.1336, 5e-05),
    },
    "disguised": {
        "mean_change_exact": (51.939, 0.0005),
    },
    "structure": {
        "distortion": (17.346, 0.0005),
    },
    "noise": {
        "error": (0.133586, 1e-06),
        "filter_ppm_50": (17.3459, 0.0001),
        "filter_ppm_limit": (26.7172, 0.0001),
        "gaussian_sd_neglecting_50": (442.662, 0.001),
        "gaussian_sd_neglecting_200": (1179.395, 0.001),
        "gaussian_sd_neglecting_1000": (2808.672, 0.001),
    },
    "examples": {
        "averages_bound": (0.1336, 5e-05),
    },
    "schedule": {
        "bound": (0.29574, 1e-05),
    },
    "levels": {
        "distortion_ppm_20": (91.37, 0.001),
        "distortion_ppm_40": (53.394, 0.001),
        "bayes_error_20": (0.51893, 1e-05),
        "bayes_error_40": (0.33639, 1e-05),
        "fano_20": (0.4349, 1e-05),
        "fano_40": (0.27342, 1e-05),
        "fano_paper_20": (0.36932, 1e-05),
        "fano_paper_40": (0.16932, 1e-05),
    },
}
