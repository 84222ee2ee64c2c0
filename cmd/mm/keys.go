package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
)

// The environment variables that hold the password of a private key; the
// second is cosign's, whose key files are the same. Set and empty is a
// password, too.
const (
	passwordEnv       = "MM_KEY_PASSWORD"
	cosignPasswordEnv = "COSIGN_PASSWORD"
)

// defaultKey is the name of the user's own key.
const defaultKey = "mm"

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
				&cli.StringFlag{Name: "name", Value: defaultKey, Usage: "what to call the key"},
				&cli.StringFlag{Name: "out", Usage: "write `PREFIX`.key and PREFIX.pub"},
				&cli.BoolFlag{Name: "no-trust", Usage: "do not add the key to the trust file"},
			},
			Action: p.keysGenerate,
		}},
	}
}

func (p *program) keysGenerate(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	name := c.String("name")
	prefix := c.String("out")
	if prefix == "" {
		dir, err := home()
		if err != nil {
			return err
		}
		prefix = filepath.Join(dir, keysDir, name)
	}
	for _, file := range []string{prefix + ".key", prefix + ".pub"} {
		if exists(file) {
			return hinted{fmt.Errorf("%s is there already", file), "move it away, or choose another --name"}
		}
	}
	password, err := p.newPassword()
	if err != nil {
		return err
	}
	private, public, err := sign.Generate(sign.Algorithm(c.String("type")), password)
	if err != nil {
		return usageError{err}
	}
	if err := os.MkdirAll(filepath.Dir(prefix), 0o700); err != nil {
		return err
	}
	if err := fsx.WriteFile(prefix+".key", private, 0o600); err != nil {
		return err
	}
	if err := fsx.WriteFile(prefix+".pub", public, 0o644); err != nil {
		return err
	}
	key, err := sign.LoadPublic(public)
	if err != nil {
		return err
	}
	if !c.Bool("no-trust") {
		dir, err := home()
		if err != nil {
			return err
		}
		err = changeTrust(c.Context, filepath.Join(dir, trustFile), func(t *trust) error {
			return t.add(name, trustKey{PEM: string(public)}, []string{"**"})
		})
		if err != nil {
			return err
		}
	}
	if p.json {
		return p.printJSON(map[string]string{"private": prefix + ".key", "public": prefix + ".pub", "id": key.KeyID()})
	}
	fmt.Fprintf(p.stdout, "%s.key\n%s.pub\n", prefix, prefix)
	return nil
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
func (p *program) password(file string) func() ([]byte, error) {
	return func() ([]byte, error) {
		if pass, ok := passwordFromEnv(); ok {
			return pass, nil
		}
		return p.ask("password for " + file + ": ")
	}
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

// loadKey reads the private key in file, or the user's own where file is
// empty.
func (p *program) loadKey(file string) (*sign.PrivateKey, error) {
	if file == "" {
		dir, err := home()
		if err != nil {
			return nil, err
		}
		file = filepath.Join(dir, keysDir, defaultKey+".key")
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinted{fmt.Errorf("no private key at %s", file), "mm keys generate makes one"}
	}
	if err != nil {
		return nil, err
	}
	key, err := sign.LoadPrivate(data, p.password(file))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", strings.TrimSpace(file), err)
	}
	return key, nil
}
