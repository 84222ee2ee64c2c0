package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
)

func (p *program) login(c *cli.Context) error {
	opt := remote.LoginOptions{Host: c.Args().First(), User: c.String("user"), Plaintext: c.Bool("plaintext")}
	var err error
	if opt.Password, err = p.secret(opt.User, c.Bool("password-stdin")); err != nil {
		return err
	}
	client, err := remote.New(remote.Options{PlainHTTP: c.StringSlice("plain-http"), Progress: p.newTransfer("").Event})
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.Login(c.Context, opt)
	if errors.Is(err, remote.ErrPlaintext) {
		return diag.Hinted(err, "set up a Docker credential helper, or use --plaintext")
	}
	if err != nil {
		return err
	}
	return p.sayLine(map[string]string{"host": opt.Host}, "logged in to %s", opt.Host)
}

func (p *program) logout(c *cli.Context) error {
	if err := remote.Logout(c.Context, c.Args().First()); err != nil || !p.json {
		return err
	}
	return p.printJSON(map[string]string{"host": c.Args().First()})
}

// maxPassword is the size limit of a password, in bytes.
const maxPassword = 64 << 10

// secret reads the password from the terminal or from standard input.
func (p *program) secret(user string, stdin bool) (string, error) {
	if stdin {
		line, err := bufio.NewReader(io.LimitReader(p.stdin, maxPassword+2)).ReadString('\n')
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
	f, ok := p.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", diag.Usage(diag.Hinted(errors.New("a password is required, and standard input is not a terminal"), "use --password-stdin"))
	}
	what := "identity token"
	if user != "" {
		what = "password of " + user
	}
	fmt.Fprint(p.stderr, what+": ")
	secret, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(p.stderr)
	return string(secret), err
}
