package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The deb and the rpm hold the programs, manual pages, completions, documents and
// notices, and have the same bytes twice.
func TestPackages(t *testing.T) {
	if os.Getenv("MM_CHECK") == "" {
		t.Skip("skipped: builds nfpm; make check runs it")
	}
	var sums []string
	for range 2 {
		r := &release{version: "1.2.3", out: t.TempDir(), work: t.TempDir(), date: time.Unix(1_700_000_000, 0).UTC()}
		r.notices = filepath.Join(r.work, "THIRD_PARTY_NOTICES.txt")
		writeFile(t, r.notices, "notices")
		for _, p := range programs {
			writeFile(t, filepath.Join(r.work, p), "program")
		}
		t.Chdir("../..")
		files, err := r.linuxPackages(t.Context(), "amd64", r.work)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir("tools/release")
		for _, file := range files {
			sum, err := hash(file)
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, string(sum))
		}
		listPackages(t, files)
	}
	if sums[0] != sums[2] || sums[1] != sums[3] {
		t.Error("two runs give different packages")
	}
}

// listPackages checks the contents by the tools of the distributions.
func listPackages(t *testing.T, files []string) {
	t.Helper()
	for i, list := range [][]string{{"dpkg-deb", "-c"}, {"rpm", "-qpl"}} {
		if _, err := exec.LookPath(list[0]); err != nil {
			t.Logf("not listed: no %s", list[0])
			continue
		}
		out, err := exec.Command(list[0], list[1], files[i]).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", list[0], err, out)
		}
		for _, want := range []string{"/usr/bin/mm\n", "/usr/bin/mm-native\n", "/usr/bin/mm-queue\n", "/usr/share/man/man1/mm-run.1", "/usr/share/bash-completion/completions/mm\n", "/usr/share/doc/mm-abi/THIRD_PARTY_NOTICES.txt\n"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s does not list %q", list[0], want)
			}
		}
	}
}

// The formula names each archive with its checksum.
func TestFormula(t *testing.T) {
	r := &release{version: "1.2.3", out: t.TempDir(), url: "https://releases.example"}
	if err := r.formula(map[string]string{"mm-1.2.3-darwin-arm64.tar.gz": "aa", "mm-1.2.3-linux-amd64.tar.gz": "bb"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "mm.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"class Mm < Formula", `version "1.2.3"`, "https://releases.example/v1.2.3/mm-1.2.3-darwin-arm64.tar.gz", `sha256 "aa"`, `sha256 "bb"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the formula lacks %q", want)
		}
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		if out, err := exec.Command(ruby, "-c", filepath.Join(r.out, "mm.rb")).CombinedOutput(); err != nil {
			t.Errorf("ruby -c: %v\n%s", err, out)
		}
	}
}
