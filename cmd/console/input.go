package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/term"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Input reads texts that a user types, pipes or names. Questions are shown at Out.
type Input struct {
	In  io.Reader
	Out io.Writer
}

// Terminal reports whether the standard input is a terminal.
func (i Input) Terminal() bool {
	f, ok := i.In.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Piped reports whether the standard input is a pipe or a file. A device such as
// /dev/null does not provide a text.
func (i Input) Piped() bool {
	f, ok := i.In.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeDevice|fs.ModeDir) == 0
}

// Open opens a file, or the standard input for -. The caller calls done after it.
func (i Input) Open(file string) (in io.Reader, done func() error, err error) {
	if file == "-" {
		return i.In, func() error { return nil }, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// Read reads a file, or the standard input for -, of limit bytes at most. A larger one is
// [fsx.ErrTooLarge].
func (i Input) Read(file string, limit int64) ([]byte, error) {
	if file != "-" {
		return fsx.ReadFile(file, limit)
	}
	data, err := io.ReadAll(io.LimitReader(i.In, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("standard input is %w: the limit is %s", fsx.ErrTooLarge, fsx.FormatSize(limit))
	}
	return data, err
}

// Password asks for a password at the terminal. Without one it is an error, with the hint
// for what to do instead.
func (i Input) Password(question, instead string) ([]byte, error) {
	f, ok := i.In.(*os.File)
	if !ok || !i.Terminal() {
		return nil, diag.Hinted(errors.New("a password is required, and standard input is not a terminal"), instead)
	}
	fmt.Fprint(i.Out, question)
	password, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(i.Out)
	return password, err
}

// maxPassword is the size limit of a piped password, in bytes.
const maxPassword = 64 << 10

// PipedPassword reads the first line of the standard input.
func (i Input) PipedPassword() (string, error) {
	line, err := bufio.NewReader(io.LimitReader(i.In, maxPassword+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); len(line) > maxPassword {
		return "", fmt.Errorf("password too long: the limit is %d bytes", maxPassword)
	} else if line == "" {
		return "", diag.Usagef("missing password on standard input")
	}
	return line, nil
}
