package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Slash commands change the conversation, name the fault, and end it.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	image, text := filepath.Join(dir, "a.png"), filepath.Join(dir, "text")
	for _, file := range []string{image, text} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &Conversation{}
	for _, step := range []struct {
		line, note, fault string
		turns, shown      int
	}{
		{"/system be brief", "", "", 1, 0},
		{"/save " + filepath.Join(dir, "kept"), "saved 1 turns", "", 1, 0},
		{" /system ", "", "", 0, 0},
		{"/load " + filepath.Join(dir, "kept"), "loaded 1 turns", "", 1, 0},
		{"/load " + text, "", text, 1, 0},
		{"/image " + image, "a.png is attached", "", 1, 1},
		{"/image " + dir, "", "not a regular file", 1, 1},
		{"/image " + image + "x", "", "no such file", 1, 1},
		{"/video " + dir, "is attached", "", 1, 2},
		{"/audio", "", "/audio: missing file name", 1, 2},
		{"/save", "", "/save: missing file name", 1, 2},
		{"/sing", "", "unknown command /sing", 1, 2},
		{"/?", "/reset", "", 1, 2},
		{"/reset", "", "", 1, 0},
	} {
		note, last, err := c.Command(step.line)
		if last || (err == nil) != (step.fault == "") || err != nil && !strings.Contains(err.Error(), step.fault) || err == nil && !strings.Contains(note, step.note) {
			t.Errorf("%s: %q, %v, %v", step.line, note, last, err)
		}
		if len(c.Messages()) != step.turns || len(c.shown) != step.shown {
			t.Errorf("%s: %d turns, %d parts, want %d, %d", step.line, len(c.Messages()), len(c.shown), step.turns, step.shown)
		}
	}
	for _, line := range []string{"/bye", "/exit", "/quit"} {
		if _, last, err := c.Command(line); !last || err != nil {
			t.Errorf("%s: %v, %v", line, last, err)
		}
	}
}
