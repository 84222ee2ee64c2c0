package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// maxStart is the heap in bytes that a package of mm may fill when a program starts,
// which every command pays for: tables and patterns are made on first use.
const maxStart = 24 << 10

func TestStart(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		// init mm-abi.org/mm/modules @2.1 ms, 0.01 ms clock, 1200 bytes, 12 allocs
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != "init" || !strings.HasPrefix(f[1], "mm-abi.org/mm/") {
			continue
		}
		seen++
		if n, err := strconv.Atoi(f[7]); err != nil || n > maxStart {
			t.Errorf("%s fills %s bytes when a program starts, limit maxStart (%d)", f[1], f[7], maxStart)
		}
	}
	if seen < 20 {
		t.Errorf("%d packages of mm in the trace: the rule is blind\n%s", seen, out)
	}
}
