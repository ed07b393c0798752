# SPDX-License-Identifier: MIT
"""What several frameworks share."""
