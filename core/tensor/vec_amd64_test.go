//go:build amd64 && !purego

package tensor

import "testing"

// TestOlderKernels repeats the tests with fewer processor features.
func TestOlderKernels(t *testing.T) {
	avx2, avx512 := hasAVX2, hasAVX512
	defer func() { hasAVX2, hasAVX512 = avx2, avx512 }()
	for name, set := range map[string]func(){
		"AVX2":  func() { hasAVX2, hasAVX512 = avx2, false },
		"plain": func() { hasAVX2, hasAVX512 = false, false },
	} {
		set()
		t.Run(name, func(t *testing.T) {
			t.Run("Vec", TestKernelsAgree)
			t.Run("Exp", TestExpAccuracy)
			t.Run("Padding", TestExpSumPadding)
			t.Run("F16", TestF16)
			t.Run("MulPanel", TestMulPanel)
		})
	}
}
