package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// The environment variables that hold the password of a private key; the
// second is cosign's, whose key files are the same. Set and empty is a
// password, too.
const (
	passwordEnv       = "MM_KEY_PASSWORD"
	cosignPasswordEnv = "COSIGN_PASSWORD"
)

func (p *program) keysCommand() *cli.Command {
	return &cli.Command{
		Name: "keys", Usage: "make signing keys",
		Subcommands: []*cli.Command{{
			Name: "generate", Usage: "make a key pair, shared with cosign, and trust it on this machine",
			Description: "Writes NAME.key (encrypted) and NAME.pub into the keys folder of MM_HOME, or to\n" +
				"PREFIX.key and PREFIX.pub with --out. The password comes from " + passwordEnv + " (or\n" +
				cosignPasswordEnv + ") or is asked for.",
			Flags: []cli.Flag{
				p.jsonFlag(),
				&cli.StringFlag{Name: "type", Value: string(sign.P256), Usage: "p256 or ed25519"},
				&cli.StringFlag{Name: "name", Value: workspace.DefaultKey, Usage: "what to call the key"},
				&cli.StringFlag{Name: "out", Usage: "write `PREFIX`.key and PREFIX.pub"},
				&cli.BoolFlag{Name: "no-trust", Usage: "do not add the key to the trust file"},
			},
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 0, 0); err != nil {
					return err
				}
				opt := workspace.KeyOptions{
					Algorithm: sign.Algorithm(c.String("type")), Name: c.String("name"), Prefix: c.String("out"), NoTrust: c.Bool("no-trust"),
				}
				if opt.Algorithm != sign.P256 && opt.Algorithm != sign.Ed25519 {
					return usageError{fmt.Errorf("--type is %q, wanted %s or %s", opt.Algorithm, sign.P256, sign.Ed25519)}
				}
				return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return p.keysGenerate(c.Context, w, opt) })
			},
		}},
	}
}

func (p *program) keysGenerate(ctx context.Context, w *workspace.Workspace, opt workspace.KeyOptions) error {
	made, err := w.GenerateKey(ctx, opt, p.newPassword)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(made)
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n%s\n", made.Private, made.Public)
	return err
}

// newPassword takes the password of a new key from the environment or asks
// twice.
func (p *program) newPassword() ([]byte, error) {
	if pass, ok := passwordFromEnv(); ok {
		return pass, nil
	}
	first, err := p.ask("password for the new private key: ")
	if err != nil {
		return nil, err
	}
	again, err := p.ask("the same again: ")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(first, again) {
		return nil, errors.New("the two passwords differ")
	}
	return first, nil
}

// password takes the password of an existing key.
func (p *program) password(file string) ([]byte, error) {
	if pass, ok := passwordFromEnv(); ok {
		return pass, nil
	}
	return p.ask("password for " + file + ": ")
}

func passwordFromEnv() ([]byte, bool) {
	for _, name := range []string{passwordEnv, cosignPasswordEnv} {
		if pass, ok := os.LookupEnv(name); ok {
			return []byte(pass), true
		}
	}
	return nil, false
}

func (p *program) ask(prompt string) ([]byte, error) {
	f, ok := p.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, hinted{errors.New("a password is needed and there is no terminal to ask on"), "set " + passwordEnv}
	}
	fmt.Fprint(p.stderr, prompt)
	pass, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(p.stderr)
	return pass, err
}
