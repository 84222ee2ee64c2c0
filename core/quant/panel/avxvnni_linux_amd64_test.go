//go:build !purego

package panel

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestAVXVNNI runs the AVX-VNNI kernels. If the processor has only the AVX-512
// form of VPDPBUSD, the test patches it into the code of this process: its
// fields have the same bits, and its length is the same.
func TestAVXVNNI(t *testing.T) {
	if !hasAVX2 {
		t.Skip("skipped: core/tensor uses a lower level")
	}
	if !cpu.X86.HasAVXVNNI {
		if !cpu.X86.HasAVX512VL || !cpu.X86.HasAVX512VNNI {
			t.Skip("skipped: neither AVX-VNNI nor AVX-512 VNNI")
		}
		defer replaceVEX(t)()
	}
	avx2, avxvnni, avx512, vnni, amx := hasAVX2, hasAVXVNNI, hasAVX512, hasVNNI, hasAMX
	defer func() { hasAVX2, hasAVXVNNI, hasAVX512, hasVNNI, hasAMX = avx2, avxvnni, avx512, vnni, amx }()
	hasAVX2, hasAVXVNNI, hasAVX512, hasVNNI, hasAMX = true, true, false, false, false
	t.Run("Mul", TestMul)
	t.Run("BatchInvariance", TestBatchInvariance)
	t.Run("Extremes", TestExtremes)
	t.Run("NaN", TestNaNScale)
}

// replaceVEX patches the AVX-512 form over each DPBUSD of avxvnni_amd64.h and
// returns a function that restores the code.
func replaceVEX(t *testing.T) (restore func()) {
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		t.Skip("skipped:", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	before := make(map[int64][]byte)
	kernels := make(map[string]bool)
	for line := range strings.Lines(string(maps)) {
		var lo, hi int64
		var perm string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &lo, &hi, &perm); n != 3 || perm != "r-xp" || !strings.Contains(line, os.Args[0]) {
			continue
		}
		code := make([]byte, hi-lo)
		if _, err := mem.ReadAt(code, lo); err != nil {
			t.Fatal(err)
		}
		for at := 0; ; at += 6 {
			i := bytes.Index(code[at:], []byte{0x3e, 0xc4})
			if i < 0 || at+i+6 > len(code) {
				break
			}
			at += i
			b := code[at : at+6]
			f := runtime.FuncForPC(uintptr(lo) + uintptr(at))
			if b[2]&0x5f != 0x42 || b[3]&0x87 != 5 || b[4] != 0x50 || b[5] < 0xc0 || f == nil || !strings.Contains(f.Name(), "AVXVNNI") {
				at -= 5
				continue
			}
			kernels[f.Name()] = true
			before[lo+int64(at)] = bytes.Clone(b)
			// R, X, B and the map; W, vvvv and pp; 256 bits, no mask.
			evex := []byte{0x62, b[2] | 0x10, b[3], 0x28, 0x50, b[5]}
			if _, err := mem.WriteAt(evex, lo+int64(at)); err != nil {
				t.Skip("skipped:", err)
			}
		}
	}
	if len(kernels) != 20 {
		t.Errorf("patched %d kernels, want 20: %v", len(kernels), kernels)
	}
	return func() {
		for at, b := range before {
			if _, err := mem.WriteAt(b, at); err != nil {
				t.Error(err)
			}
		}
		mem.Close()
	}
}
