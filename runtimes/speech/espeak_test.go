package speech_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes/speech"
)

// program writes a shell script with the interface of espeak-ng.
func program(t *testing.T, body string) speech.Espeak {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("shell scripts")
	}
	file := filepath.Join(t.TempDir(), "espeak-ng")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return speech.Espeak{Program: file}
}

func TestEspeak(t *testing.T) {
	e := program(t, `if [ "$1" = --version ]; then echo 'eSpeak NG text-to-speech: 1.51  Data at: /x'; exit; fi
read -r line; echo "$* $line (en)a_b"; echo " ɪ`+"\u200d"+`x "`)
	if v, err := e.Version(t.Context()); err != nil || v != "espeak-ng 1.51" {
		t.Errorf("version %q, %v", v, err)
	}
	got, err := e.Phonemes(t.Context(), "-v evil", "en-us", true)
	if want := "-q --stdin -b 1 --ipa -v en-us --tie=^ -v evil ab ɪx"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := e.Phonemes(t.Context(), "a", "de", false); err != nil || !strings.HasPrefix(got, "-q --stdin -b 1 --ipa -v de a") {
		t.Errorf("got %q, %v", got, err)
	}
	t.Setenv("MM_SECRET", "x")
	if got, err := program(t, "env").Phonemes(t.Context(), "a", "de", false); err != nil || strings.Contains(got, "MM") {
		t.Errorf("environment %q, %v", got, err)
	}
}

// maxPhonemes and maxErrorText bound the output.
func TestEspeakFails(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx        context.Context
		body, want string
	}{
		"fails":     {t.Context(), "echo no such voice >&2; exit 3", `exit status 3: "no such voice"`},
		"endless":   {t.Context(), "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", "writes more than 1048576 bytes"},
		"cancelled": {ended, "sleep 60", "context canceled"},
	} {
		if _, err := program(t, c.body).Phonemes(c.ctx, "a", "de", false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := program(t, "echo another program").Version(t.Context()); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("version of another program: %v", err)
	}
	just := program(t, "head -c 1048576 /dev/zero | tr '\\0' a")
	if got, err := just.Phonemes(t.Context(), "a", "de", false); err != nil || len(got) != speech.PhonemesLimit {
		t.Errorf("%d bytes of phonemes, %v", len(got), err)
	}
	loud := program(t, "head -c 1025 /dev/zero | tr '\\0' e >&2; exit 1")
	if _, err := loud.Phonemes(t.Context(), "a", "de", false); err == nil || len(err.Error()) > speech.ErrorTextLimit {
		t.Errorf("errors of %d bytes: %v", speech.ErrorTextLimit+1, err)
	}
}

// The phonemes of the installed program are those of Kokoro's own converter.
func TestInstalledEspeak(t *testing.T) {
	if _, err := exec.LookPath("espeak-ng"); err != nil {
		t.Skip("espeak-ng is not installed")
	}
	got, err := speech.Espeak{}.Phonemes(t.Context(), "hello world", "en-us", true)
	if want := "həlˈO wˈɜɹld"; err != nil || speech.Kokoro(got, "en-us") != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
