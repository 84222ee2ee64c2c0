package protocol_test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/device/protocol"
)

// A shell splits quoted words correctly.
func TestCommand(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	for _, word := range []string{"a", "", "a b", "it's", `"$HOME"`, "`id`", "a\nb", "$(id)", "~", "*", "-n", `\`, "ä"} {
		out, err := exec.Command(sh, "-c", protocol.Command("printf", "%s|", word, "end")).Output()
		if err != nil || string(out) != word+"|end|" {
			t.Errorf("%q: %q, %v", word, out, err)
		}
	}
}

func TestBounds(t *testing.T) {
	var tail protocol.Tail
	for i := range 100 {
		tail.Write(bytes.Repeat([]byte{byte(i)}, 4096))
	}
	if b := tail.Bytes(); len(b) != protocol.MaxStderr || b[len(b)-1] != 99 || b[0] != 84 {
		t.Errorf("%d bytes, %d to %d", len(b), b[0], b[len(b)-1])
	}
	var head protocol.Head
	if _, err := head.Write([]byte(strings.Repeat("x", protocol.MaxStdout))); err != nil {
		t.Error(err)
	}
	if _, err := head.Write([]byte("x")); !errors.Is(err, protocol.ErrTooMuch) {
		t.Errorf("%v", err)
	}
}
