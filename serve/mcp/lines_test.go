package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Every line that is passed on is a message, and every answer is JSON.
func FuzzLines(f *testing.F) {
	f.Add([]byte("hello\n\ufeff{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n[]\n{}\n\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"x"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		passed, err := io.ReadAll(&lines{in: bufio.NewReader(bytes.NewReader(b)), out: &out})
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(passed)) {
			if _, err := jsonrpc.DecodeMessage([]byte(line)); err != nil {
				t.Errorf("passed %q: %v", line, err)
			}
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("answered %q", line)
			}
		}
	})
}
