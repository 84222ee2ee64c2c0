package fsx

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "512": 512, "500M": 500 << 20, "20g": 20 << 30, "1T": 1 << 40, "2KiB": 2 << 10, "512 MiB": 512 << 20,
		"9223372036854775807": math.MaxInt64, "8388607T": 8388607 << 40,
	} {
		if n, err := ParseSize(text); err != nil || n != want {
			t.Errorf("%q: got %d, %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "x", "K", "iB", "1.5G", "1KB", "8388608T", "9223372036854775808"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q: got %d", text, n)
		}
	}
}

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 10239: "10239 B", 10240: "10 KiB", 10<<20 - 1: "10239 KiB", 10 << 20: "10 MiB", 10 << 30: "10 GiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
