package speech

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Phonemizer converts text to phonemes of the International Phonetic Alphabet. With
// ties, "^" joins the letters of one sound.
type Phonemizer interface {
	Phonemes(ctx context.Context, text, language string, ties bool) (string, error)
	Version(ctx context.Context) (string, error)
}

// Espeak runs the program espeak-ng, with the text on standard input, no other
// environment than the paths of programs and of its data, and limited time.
type Espeak struct {
	Program string // if empty, espeak-ng in PATH
}

const (
	espeakTime    = 20 * time.Second
	maxPhonemes   = 1 << 20 // bytes of output
	maxErrorText  = 1 << 10
	espeakProgram = "espeak-ng"
)

// errNoEspeak reports that the program is missing.
var errNoEspeak = errors.New("espeak-ng is not in PATH")

var (
	versionLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^e[Ss]peak NG text-to-speech: ([0-9][0-9A-Za-z.+-]{0,30})`)
	})
	flags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\([a-z]{2,8}(-[a-z0-9]{1,8})*\)`) }) // of a change of language
)

// Version returns the name and the version of the program.
func (e Espeak) Version(ctx context.Context) (string, error) {
	out, err := e.run(ctx, "", "--version")
	if err != nil {
		return "", err
	}
	m := versionLine().FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("got the version %.80q, want eSpeak NG text-to-speech: NUMBER", out)
	}
	return "espeak-ng " + m[1], nil
}

// Phonemes converts a text without line breaks.
func (e Espeak) Phonemes(ctx context.Context, text, language string, ties bool) (string, error) {
	args := []string{"-q", "--stdin", "-b", "1", "--ipa", "-v", language}
	if ties {
		args = append(args, "--tie="+tie)
	}
	out, err := e.run(ctx, text+"\n", args...)
	if err != nil {
		return "", err
	}
	out = flags().ReplaceAllString(out, "")
	out = strings.NewReplacer("\u200d", "", "\u0361", "", "_", "").Replace(out)
	return strings.Join(strings.Fields(out), " "), nil
}

// run runs the program and returns its output.
func (e Espeak) run(ctx context.Context, input string, args ...string) (string, error) {
	name := e.Program
	if name == "" {
		name = espeakProgram
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoEspeak, err)
	}
	ctx, cancel := context.WithTimeout(ctx, espeakTime)
	defer cancel()
	out, faults := &bounded{limit: maxPhonemes, full: cancel}, &bounded{limit: maxErrorText, full: func() {}}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), out, faults
	cmd.Env, cmd.WaitDelay = environment(), time.Second
	err = cmd.Run()
	switch {
	case out.cut:
		return "", fmt.Errorf("espeak-ng writes more than %d bytes", maxPhonemes)
	case ctx.Err() != nil:
		return "", fmt.Errorf("espeak-ng: %w", ctx.Err())
	case err != nil:
		return "", fmt.Errorf("espeak-ng: %w: %.200q", err, strings.TrimSpace(faults.data.String()))
	}
	return out.data.String(), nil
}

// environment returns the variables of the program.
func environment() []string {
	env := []string{"LC_ALL=C.UTF-8"}
	for _, name := range []string{"PATH", "ESPEAK_DATA_PATH", "SystemRoot"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// bounded keeps the first bytes of an output.
type bounded struct {
	data  bytes.Buffer // without its ReadFrom, which has no limit
	limit int
	cut   bool
	full  func() // called at further bytes
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.data.Len(); len(p) > room {
		b.cut = true
		b.full()
		_, _ = b.data.Write(p[:room])
		return room, io.ErrShortWrite
	}
	return b.data.Write(p)
}
