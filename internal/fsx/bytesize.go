package fsx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// FormatSize formats n with a binary unit, from 10 KiB, MiB or GiB on.
func FormatSize(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// ParseSize parses a positive number of bytes with an optional binary unit: 20G and
// 20GiB are the same. The empty string is 0.
func ParseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	number, shift := s, 0
	for i, unit := range []string{"K", "M", "G", "T"} {
		for _, suffix := range []string{unit, strings.ToLower(unit), unit + "iB"} {
			if rest, ok := strings.CutSuffix(s, suffix); ok {
				number, shift = rest, 10*(i+1)
			}
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("invalid size %q, want bytes or a size such as 512MiB or 20G", s)
	}
	return n << shift, nil
}
