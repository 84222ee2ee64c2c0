package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A model of another server chats in the forms of OpenAI and of Anthropic, and calls the skills
// of a build here; the answers are those of the build itself.
func TestChatHosted(t *testing.T) {
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("ANTHROPIC_API_KEY", "")
	build := []string{"--target", "laptop", "../../builds/m-lite.graph.yaml"}
	url := serveFor(t, build...)
	chat := func(code int, args ...string) (out, errs string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), append([]string{"mm", "chat"}, args...), strings.NewReader("What is 12 plus 7?\n"), &stdout, &stderr); got != code {
			t.Fatalf("%v: got exit code %d: %s", args, got, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	want, _ := chat(0, append([]string{"-n", "40"}, build...)...)
	for form, at := range map[string]string{"openai": url + "/v1", "anthropic": url} {
		there := []string{"--provider", form, "--url", at, "--model", "m-lite", "-n", "40"}
		got, errs := chat(0, append(there, build...)...)
		if got != want || !strings.Contains(errs, `"op":"simplify"} → {"ok":true,"result":19}`) || !strings.Contains(errs, "the conversation is sent to 127.0.0.1:") {
			t.Errorf("%s: got %q, want %q\n%s", form, got, want, errs)
		}
		if _, errs := chat(0, there...); strings.Contains(errs, "simplify") {
			t.Errorf("%s without skills: %s", form, errs)
		}
	}
	if _, errs := chat(0, "--provider", "openai", "--url", url+"/v1", "--model", "other"); !strings.Contains(errs, "unknown model") || !strings.Contains(errs, "hint: check --model") {
		t.Errorf("unknown model: %s", errs)
	}
	for _, c := range [][]string{
		{}, {"--model", "m", "x"}, {"--provider", "other", "--model", "m"}, {"--provider", "openai"}, {"--provider", "openai", "--model", "m", "--raw"},
		{"--provider", "openai", "--model", "m", "--url", "http://models.example/v1"},
	} {
		chat(2, c...)
	}
}
