package diag_test

import (
	"testing"

	"mm-abi.org/mm/internal/diag"
)

func TestNearest(t *testing.T) {
	commands := []string{"assemble", "validate", "pull", "push", "run", "rm", "ls"}
	types := []string{"fp32", "fp16", "fp8", "int8", "uint8"}
	for _, tc := range []struct {
		got   string
		known []string
		want  string
	}{
		{"asemble", commands, "assemble"},
		{"vaildate", commands, "validate"},
		{"PUSH", commands, "push"},
		{"pul", commands, "pull"},
		{"rnu", commands, "run"},
		{"lss", commands, "ls"},
		{"frobnicate", commands, ""},
		{"u8", types, ""}, // fp8 is as near as int8
		{"uin8", types, "uint8"},
		{"push", commands, ""}, // correct
		{"", commands, ""},
	} {
		got, ok := diag.Nearest(tc.got, tc.known)
		if ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("Nearest(%q) = %q, %v, want %q", tc.got, got, ok, tc.want)
		}
	}
}
