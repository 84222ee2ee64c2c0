package main

import (
	"bytes"
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// The environment variables with the password of a private key. The second one is
// cosign's, which uses the same key files. A variable that is set and empty is an
// empty password.
const (
	passwordEnv       = "MM_KEY_PASSWORD"
	cosignPasswordEnv = "COSIGN_PASSWORD"
)

func (p *program) keysGenerate(c *cli.Context) error {
	opt := workspace.KeyOptions{
		Algorithm: sign.Algorithm(c.String("type")), Name: c.String("name"), Prefix: c.String("out"), NoTrust: c.Bool("no-trust"),
	}
	if opt.Algorithm != sign.P256 && opt.Algorithm != sign.Ed25519 {
		return diag.Usagef("--type %q: want %s or %s", opt.Algorithm, sign.P256, sign.Ed25519)
	}
	password := p.newPassword
	if c.Bool("unencrypted") {
		password = func() ([]byte, error) { return nil, nil }
	}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		made, err := w.GenerateKey(c.Context, opt, password)
		if err != nil {
			return err
		}
		return p.PrintLine(made, "%s\n%s", made.Private, made.Public)
	})
}

// newPassword reads the password of a new key from the environment, or twice from
// the terminal.
func (p *program) newPassword() ([]byte, error) {
	first, err := p.password("the new private key")
	if _, ok := passwordFromEnv(); ok || err != nil {
		return first, err
	}
	again, err := p.input().Password("repeat the password: ", "set "+passwordEnv)
	if err == nil && !bytes.Equal(first, again) {
		err = errors.New("the passwords differ")
	}
	return first, err
}

// password reads the password of an existing key.
func (p *program) password(file string) ([]byte, error) {
	if pass, ok := passwordFromEnv(); ok {
		return pass, nil
	}
	return p.input().Password("password for "+file+": ", "set "+passwordEnv)
}

func passwordFromEnv() ([]byte, bool) {
	for _, name := range []string{passwordEnv, cosignPasswordEnv} {
		if pass, ok := os.LookupEnv(name); ok {
			return []byte(pass), true
		}
	}
	return nil, false
}

// signerFlags select who signs: a key, or with services the identity of a token.
type signerFlags struct {
	key       string
	certified workspace.CertifiedOptions
}

// signerOptions returns who signs, or refuses flags that exclude each other.
func signerOptions(c *cli.Context) (signerFlags, error) {
	s := signerFlags{c.String("key"), workspace.CertifiedOptions{Services: c.String("signing-config"), Root: c.String("trusted-root"), Token: c.String("identity-token")}}
	if !c.Bool("keyless") {
		return s, refuseOptions(c, "--%s requires --keyless", "signing-config", "trusted-root", "identity-token")
	}
	if err := refuseOptions(c, "--%s and --keyless exclude each other", "key", "oms"); err != nil {
		return s, err
	}
	if s.certified.Services == "" || s.certified.Root == "" {
		return s, diag.Usagef("--keyless: want --signing-config and --trusted-root")
	}
	return s, nil
}

// signerOf returns the signer.
func (p *program) signerOf(ctx context.Context, w *workspace.Workspace, s signerFlags) (*workspace.Signer, error) {
	if s.certified.Services != "" {
		return w.Certified(ctx, s.certified)
	}
	return w.Signer(s.key, p.password)
}

func (p *program) auditVerify(c *cli.Context, w *workspace.Workspace) error {
	report, err := w.CheckAudit(c.Context, c.String("head"))
	if err != nil {
		return err
	}
	return p.PrintLine(report, "%s, none missing; the last is %s", diag.Count(report.Entries, "line"), report.Head)
}

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
	return p.silently(map[string]string{"host": c.Args().First()}, remote.Logout(c.Context, c.Args().First()))
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
