package cpu

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	machine := []level{{Plain, nil}, {AVX2, []Level{AVX2}}, {AVX512, []Level{AVX2, AVX512}}}
	for name, want := range map[string]Level{"": AVX512, "plain": Plain, "avx2": AVX2, "avx512": AVX512} {
		got, err := choose(name, machine)
		if got.name != want || err != nil {
			t.Errorf("MM_CPU=%q : got %s, %v, want %s", name, got.name, err, want)
		}
	}
	for _, name := range []string{"vnni", "AVX2", "none"} {
		got, err := choose(name, machine)
		if got.name != AVX512 || err == nil || !strings.Contains(err.Error(), "plain, avx2, avx512") {
			t.Errorf("MM_CPU=%q : got %s, %v, want the best level and an error that lists the levels", name, got.name, err)
		}
	}
}

// TestLevels starts a process at every level of this machine.
func TestLevels(t *testing.T) {
	if want := os.Getenv("MM_CPU_WANT"); want != "" {
		if string(Use()) != want || Check() != nil {
			t.Errorf("level: got %s (%v), want %s", Use(), Check(), want)
		}
		if (Use() == Plain) == (Has(AVX2) || Has(NEON)) {
			t.Errorf("at level %s: AVX2 %v, NEON %v", Use(), Has(AVX2), Has(NEON))
		}
		return
	}
	for _, l := range Machine() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLevels$", "-test.count=1")
		cmd.Env = append(os.Environ(), "MM_CPU="+string(l), "MM_CPU_WANT="+string(l))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("MM_CPU=%s: %v\n%s", l, err, out)
		}
	}
	if !slices.Contains(Machine(), Plain) {
		t.Errorf("missing level %s: %v", Plain, Machine())
	}
}
