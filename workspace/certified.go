package workspace

import (
	"context"
	"fmt"
	"os"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/registry/sigstore"
)

// CertifiedOptions for [Workspace.Certified]. Services and Root are necessary.
type CertifiedOptions struct {
	Services string // file: signing_config.json
	Root     string // file: trusted_root.json
	Token    string // file; "": the environment
}

// Certified returns a signer without a lasting key: it asks the services that a file
// names to certify a new key to the identity of a token. Their answers count as far as the
// trusted root confirms them.
func (w *Workspace) Certified(ctx context.Context, opt CertifiedOptions) (*Signer, error) {
	created, err := SourceDate()
	if err != nil {
		return nil, err
	}
	o := sigstore.SignerOptions{Now: time.Now(), Getenv: os.Getenv}
	data, err := fsx.ReadFile(opt.Services, sigstore.MaxServices)
	if err != nil {
		return nil, err
	}
	if o.Services, err = sigstore.ParseServices(data, o.Now); err != nil {
		return nil, fmt.Errorf("%s: %w", opt.Services, err)
	}
	if data, err = fsx.ReadFile(opt.Root, sigstore.MaxRoot); err != nil {
		return nil, err
	}
	if o.Root, err = sigstore.ParseRoot(data); err != nil {
		return nil, fmt.Errorf("%s: %w", opt.Root, err)
	}
	if opt.Token != "" {
		if data, err = fsx.ReadFile(opt.Token, sigstore.MaxToken); err != nil {
			return nil, err
		}
		o.Token = string(data)
	}
	s, err := sigstore.NewSigner(ctx, o)
	if err != nil {
		return nil, diag.Hinted(fmt.Errorf("signing without a key: %w", err), "nothing was signed")
	}
	w.say("signing as %s (issuer %s), which the transparency log states publicly and for good", shorten(s.Identity().Subject), shorten(s.Identity().Issuer))
	out := &Signer{Sealer: sign.Certified{Signer: s}}
	if created != nil {
		out.Options.Created = *created
	}
	return out, nil
}
