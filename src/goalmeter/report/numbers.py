"""Numbers as tables show them."""

from __future__ import annotations

import math

# Of the maximum. What explains less is not shown as a wish: an agent without fault reaches well
# over half of it (several moves may be right), and aimless ones stay within a few hundredths.
LEAST_SHARE = 0.1


def nats(value: float) -> str:
    """Nats to four decimals; what is small but not nothing does not read 0.0000."""
    if abs(value) < 1e-12:
        return "0"
    return f"{value:.4f}" if abs(value) >= 5e-5 else f"{value:.0e}"


def rationality(value: float) -> str:
    """β, with a sign for infinity and a true minus; NaN, for no single β, is a dash."""
    if math.isnan(value):
        return "–"
    text = "∞" if math.isinf(value) else f"{abs(value):.3g}"
    return f"−{text}" if value < 0 else text


def percent(value: float) -> str:
    """A share of 1; what is small but not nothing does not read 0.0%."""
    return "<0.1%" if 0 < value < 0.0005 else f"{value:.1%}"


def signed(value: float, digits: int) -> str:
    """A number that may be negative, with a true minus."""
    return f"{value:.{digits}f}".replace("-", "−")
