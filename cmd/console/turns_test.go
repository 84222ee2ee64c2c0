package console

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"mm-abi.org/mm/schemas"
)

func TestTurns(t *testing.T) {
	long := strings.Repeat("x", schemas.MaxBytes)
	for in, want := range map[string][]string{
		"a\nb\r\nc":                 {"a", "b", "c"},
		"a\\\nb\\\n\nc":             {"a\nb", "c"},
		"\"\"\"\na\n\nb\n\"\"\"\nc": {"a\n\nb", "c"},
		"\"\"\"a\"\"\"\nc":          {"a", "c"},
		"\"\"\"a\nb\"\"\"\n":        {"a\nb"},
		"\"\"\"\nnever closed\n":    {"never closed"},
		"a\\":                       {"a"},
		"":                          nil,
		long + "\n":                 {"!"},
		long:                        {long},
		strings.Repeat("x\\\n", schemas.MaxBytes) + "\n": {"!"},
	} {
		l := &Turns{plain: bufio.NewReader(strings.NewReader(in))}
		var got []string
		for {
			s, err := l.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				got = append(got, "!")
				break
			}
			got = append(got, s)
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%.40q is %.60q, want %q", in, got, want)
		}
	}
}
