package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	orasregistry "oras.land/oras-go/v2/registry"
	oras "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"mm-abi.org/mm/internal/fsx"
)

// ErrPlaintext reports that, without a credential helper, a login can only be
// stored in clear in docker's configuration file.
var ErrPlaintext = errors.New("no credential helper is set up to keep the password")

// LoginOptions for [Client.Login].
type LoginOptions struct {
	Host      string // HOST[:PORT]
	User      string // empty: Password is an identity token
	Password  string
	Plaintext bool // store it in clear in docker's config.json if there is no helper
}

// Login tries the credentials at the registry and, if they are accepted,
// stores them with docker's: in the host's credential helper, or in
// config.json.
func (c *Client) Login(ctx context.Context, opt LoginOptions) error {
	host := strings.TrimSuffix(strings.TrimPrefix(opt.Host, "https://"), "/")
	host = hubName(strings.TrimSuffix(host, "/v1"))
	ref := orasregistry.Reference{Registry: host}
	if err := ref.ValidateRegistry(); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	store, err := openLogins(credentials.StoreOptions{AllowPlaintextPut: opt.Plaintext, DetectDefaultNativeStore: true})
	if err != nil {
		return err
	}
	cred := auth.Credential{Username: opt.User, Password: opt.Password}
	if opt.User == "" {
		cred = auth.Credential{RefreshToken: opt.Password}
	}
	client := *c.meta
	client.Cache = nil
	registry := &oras.Registry{RepositoryOptions: oras.RepositoryOptions{Client: &client, Reference: ref, PlainHTTP: c.plain(host)}}
	err = credentials.Login(ctx, store, registry, cred)
	if errors.Is(err, credentials.ErrPlaintextPutDisabled) {
		return ErrPlaintext
	}
	if err != nil {
		return fmt.Errorf("logging in to %s: %w", opt.Host, err)
	}
	return nil
}

// openLogins opens docker's config.json for writing. Text that is not UTF-8 is
// rewritten, since docker cannot read it either.
func openLogins(opt credentials.StoreOptions) (*credentials.DynamicStore, error) {
	file, err := configFile()
	if err == nil && file == "" {
		err = errors.New("no home folder, and DOCKER_CONFIG is not set")
	}
	if err != nil {
		return nil, fmt.Errorf("docker's credentials: %w", err)
	}
	raw, err := fsx.ReadFile(file, maxConfig)
	if text := decodeText(raw); err == nil && !bytes.Equal(text, raw) {
		if err := fsx.WriteFile(file, text, 0o600); err != nil {
			return nil, fmt.Errorf("docker's credentials: %w", err)
		}
	}
	store, err := credentials.NewStore(file, opt)
	if err != nil {
		return nil, fmt.Errorf("docker's credentials: %w", err)
	}
	return store, nil
}

// Logout forgets the credentials kept for a host.
func Logout(ctx context.Context, host string) error {
	store, err := openLogins(credentials.StoreOptions{})
	if err != nil {
		return err
	}
	if err := credentials.Logout(ctx, store, hubName(host)); err != nil {
		return fmt.Errorf("logging out of %s: %w", host, err)
	}
	return nil
}
