package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// jobEvents starts a job and returns its events once it has ended.
func jobEvents(t *testing.T, url, path, body string) string {
	t.Helper()
	status, text := askJSON(t, url+path, body)
	id := regexp.MustCompile(`"id":"(job_[0-9a-f]+)"`).FindStringSubmatch(text)
	if status != http.StatusAccepted || id == nil {
		t.Fatalf("%s: %d %s", path, status, text)
	}
	resp, err := http.Get(url + "/jobs/" + id[1] + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// Clients assemble a graph of the folder that --jobs names, which is then in the store, and ask
// a served model the tasks of a suite in it.
func TestServeJobs(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("MM_HOME", home)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../eval/suite/testdata")); err != nil {
		t.Fatal(err)
	}
	core, err := filepath.Abs("../../catalog")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mm.yaml": "modules: [" + filepath.ToSlash(core) + "]\n", "small.graph.yaml": "name: small\nversion: 0.1.0\ncore:\n  llm: {ref: core-llm@3.1.0, d_model: 256}\nexports:\n  laptop:\n    gguf: {quant: int8}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	url := serveFor(t, "--jobs", dir, "../../catalog/core-llm")
	text := jobEvents(t, url, "/evaluate", `{"tasks":["tasks/colors.yaml"],"limit":3}`)
	for _, want := range []string{`event: progress`, `"done":3,"task":"mm_colors","total":3`, `"state":"succeeded"`, `"acc,none"`, `"digest":"sha256:`} {
		if !strings.Contains(text, want) {
			t.Errorf("evaluate: missing %s in %s", want, text)
		}
	}
	text = jobEvents(t, url, "/assemble", `{"graph":"small.graph.yaml"}`)
	for _, want := range []string{`"step":"export"`, `"state":"succeeded"`, `"ref":"small:0.1.0"`} {
		if !strings.Contains(text, want) {
			t.Errorf("assemble: missing %s in %s", want, text)
		}
	}
	if status, text := askJSON(t, url+"/assemble", `{"graph":"../small.graph.yaml"}`); status != http.StatusForbidden {
		t.Errorf("outside: %d %s", status, text)
	}
}
