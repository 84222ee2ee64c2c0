package remote

import (
	"context"
	"errors"
	"fmt"

	orasregistry "oras.land/oras-go/v2/registry"
	oras "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
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
	ref := orasregistry.Reference{Registry: opt.Host}
	if err := ref.ValidateRegistry(); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{AllowPlaintextPut: opt.Plaintext, DetectDefaultNativeStore: true})
	if err != nil {
		return fmt.Errorf("reading docker's credentials: %w", err)
	}
	cred := auth.Credential{Username: opt.User, Password: opt.Password}
	if opt.User == "" {
		cred = auth.Credential{RefreshToken: opt.Password}
	}
	client := *c.meta
	client.Cache = nil
	registry := &oras.Registry{RepositoryOptions: oras.RepositoryOptions{Client: &client, Reference: ref, PlainHTTP: c.plain(opt.Host)}}
	err = credentials.Login(ctx, store, registry, cred)
	if errors.Is(err, credentials.ErrPlaintextPutDisabled) {
		return ErrPlaintext
	}
	if err != nil {
		return fmt.Errorf("logging in to %s: %w", opt.Host, err)
	}
	return nil
}

// Logout forgets the credentials kept for a host.
func Logout(ctx context.Context, host string) error {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return fmt.Errorf("reading docker's credentials: %w", err)
	}
	if err := credentials.Logout(ctx, store, host); err != nil {
		return fmt.Errorf("logging out of %s: %w", host, err)
	}
	return nil
}
