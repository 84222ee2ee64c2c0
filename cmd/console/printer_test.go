package console

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"mm-abi.org/mm/registry/cas"
)

// A full disk comes with the way to free space, a full standard output without.
func TestFullDiskHint(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("pull: %w", &cas.FullError{Dir: "/x", Need: 2 << 30, Free: 1}), true},
		{&fs.PathError{Op: "write", Path: "/home/x", Err: syscall.ENOSPC}, true},
		{&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, false},
		{syscall.EACCES, false},
	} {
		var out bytes.Buffer
		p := Printer{Stderr: &out}
		p.PrintError(c.err)
		if got := strings.Contains(out.String(), "mm gc --grace 0"); got != c.want {
			t.Errorf("%v: %q", c.err, out.String())
		}
	}
}
