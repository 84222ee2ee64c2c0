package card

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// measured is a card with an evaluation.
func measured(t *testing.T) *Card {
	t.Helper()
	r, err := Read(results(t))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("a1", 32)
	return &Card{
		Name: "chat", Version: "1.2.0", Digest: "sha256:" + strings.Repeat("0", 64), Target: "laptop", Description: "A build.", License: "Apache-2.0 AND MIT",
		Task: "image-text-to-text", Inputs: []string{"image", "text"}, Outputs: []string{"text"}, Texts: []string{"LICENSE"},
		Modules:     []Module{{"core", "1.0.0", "core", "Apache-2.0", "int8", "sha256:" + strings.Repeat("1", 64)}, {"calc", "0.1.0", "skill", "", "", ""}},
		Evaluations: []Signed{{r.Evaluation, key, false}}, Signers: []string{key}, Evidence: []string{Type},
	}
}

// A card has fixed bytes, with every figure, and names what is unknown.
func TestMarkdown(t *testing.T) {
	bare := &Card{Name: "x", Version: "1.0.0", Digest: "sha256:0"}
	failed := measured(t)
	failed.Readme, failed.License, failed.Invalid = "---\nlicense: mit\n---\n# Mine\n\nA text.\n", "MIT", 2
	failed.Evaluations[0].Failed = true
	failed.Evaluations[0].Tasks[0].Cut, failed.Evaluations[0].Tasks[0].Original = 3, 9
	for name, c := range map[string]*Card{"measured": measured(t), "bare": bare, "failed": failed} {
		file := "testdata/" + name + ".md"
		if *update {
			if err := os.WriteFile(file, c.Markdown(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(c.Markdown())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if d := c.Difference(want); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A digit that was changed by hand, an added line and a missing one are found.
func TestDifference(t *testing.T) {
	c := measured(t)
	text := string(c.Markdown())
	for _, other := range []string{strings.Replace(text, "0.2500", "0.2600", 1), text + "more\n", strings.TrimSuffix(text, "\n"), ""} {
		if c.Difference([]byte(other)) == "" {
			t.Errorf("no difference to %.60q…", other)
		}
	}
	if d := c.Difference([]byte(strings.ReplaceAll(text, "\n", "\r\n"))); d != "" {
		t.Errorf("line ends: %s", d)
	}
}

// Names of a foreign signer cannot leave their cell or their quotes.
func TestMarkdownHostile(t *testing.T) {
	c := measured(t)
	evil := "a|b\n# Heading\n---\nlicense: mit `<script>` [x](y)"
	c.Name, c.Description, c.Target, c.License = evil, evil, evil, evil
	c.Modules[0].Name, c.Modules[0].Digest = evil, evil
	c.Evaluations[0].Engine, c.Evaluations[0].Tasks[0].Name, c.Evaluations[0].Tasks[0].Figures[0].Method = evil, evil, evil
	for line := range strings.Lines(string(c.Markdown())) {
		if strings.HasPrefix(line, "# Heading") || strings.HasPrefix(line, "license: mit") || strings.Contains(line, "](y)") && !strings.Contains(line, `\[x`) && !strings.Contains(line, `"`) || strings.Contains(line, "<script>") && !strings.Contains(line, `"`) {
			t.Errorf("got the line %q", line)
		}
	}
	if n := strings.Count("\n"+string(c.Markdown()), "\n---\n"); n != 2 {
		t.Errorf("got %d lines ---, want 2", n)
	}
}

func TestTaskOf(t *testing.T) {
	for _, c := range []struct{ in, out, want string }{
		{"text", "text", "text-generation"}, {"image text", "text", "image-text-to-text"}, {"audio text", "text", "audio-text-to-text"}, {"text video", "text", "video-text-to-text"},
		{"audio image text", "text", "any-to-any"}, {"text", "image text", "any-to-any"}, {"audio", "embedding", ""},
	} {
		if got := TaskOf(strings.Fields(c.in), strings.Fields(c.out)); got != c.want {
			t.Errorf("%s to %s: got %q, want %q", c.in, c.out, got, c.want)
		}
	}
}

func TestHubLicense(t *testing.T) {
	for in, want := range map[string]string{
		"Apache-2.0": "apache-2.0", "apache-2.0": "apache-2.0", "MIT AND Apache-2.0": "other", "": "unknown", "GPL-3.0-or-later": "gpl-3.0", "no license": "other",
		"LicenseRef-scancode-gemma-tou-2024-04-01": "gemma", "LicenseRef-mine": "other", "GPL-2.0-only WITH Classpath-exception-2.0": "other", "0BSD": "other",
	} {
		if got := HubLicense(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}
