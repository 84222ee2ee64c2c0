package main

import (
	"errors"

	"github.com/urfave/cli/v2"

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
	return p.SayLine(map[string]string{"host": opt.Host}, "logged in to %s", opt.Host)
}

func (p *program) logout(c *cli.Context) error {
	if err := remote.Logout(c.Context, c.Args().First()); err != nil || !p.JSON {
		return err
	}
	return p.PrintJSON(map[string]string{"host": c.Args().First()})
}

// secret reads the password from the terminal or from standard input.
func (p *program) secret(user string, stdin bool) (string, error) {
	if stdin {
		return p.input().PipedPassword()
	}
	what := "identity token"
	if user != "" {
		what = "password of " + user
	}
	secret, err := p.input().Password(what+": ", "use --password-stdin")
	if !p.input().Terminal() {
		err = diag.Usage(err)
	}
	return string(secret), err
}
