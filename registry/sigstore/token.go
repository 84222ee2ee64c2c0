package sigstore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// MaxToken bounds an identity token, in bytes.
const MaxToken = 64 << 10

// audience is the audience of identity tokens for certificate authorities of Sigstore.
const audience = "sigstore"

// Environment variables that hold an identity token, or the address of one.
const (
	tokenVariable   = "SIGSTORE_ID_TOKEN"              // GitLab's id_tokens, and others
	requestVariable = "ACTIONS_ID_TOKEN_REQUEST_URL"   // GitHub Actions
	bearerVariable  = "ACTIONS_ID_TOKEN_REQUEST_TOKEN" // GitHub Actions, with permission id-token: write
)

// errNoToken is the error of an environment without a token.
var errNoToken = errors.New("no identity token: " + tokenVariable + " is not set, nor " + requestVariable + " of GitHub Actions (permission id-token: write)")

// Token returns the identity token that the environment names. That of GitHub Actions is
// asked for.
func (o SignerOptions) environmentToken(ctx context.Context) (string, error) {
	if token := o.Getenv(tokenVariable); token != "" {
		return token, nil
	}
	address, bearer := o.Getenv(requestVariable), o.Getenv(bearerVariable)
	if address == "" || bearer == "" {
		return "", errNoToken
	}
	if err := checkURL(address); err != nil {
		return "", fmt.Errorf("%s: %w", requestVariable, err)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("%s: %w", requestVariable, bare(err))
	}
	query := u.Query()
	query.Set("audience", audience)
	u.RawQuery = query.Encode()
	a := newAsker(o.Transport)
	data, err := a.ask(ctx, question{service: "GitHub Actions", url: u.String(), bearer: bearer})
	if err != nil {
		return "", err
	}
	var answer struct{ Value string }
	if err := json.Unmarshal(data, &answer); err != nil || answer.Value == "" {
		return "", errors.New("GitHub Actions: answer without a token")
	}
	return answer.Value, nil
}

// checkToken refuses a token that a certificate authority would refuse, and one that was
// made for others, who alone may see it. The authority verifies its signature.
func checkToken(token string, now time.Time) error {
	if len(token) > MaxToken {
		return fmt.Errorf("identity token: got %d bytes, want at most %d", len(token), MaxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("identity token: want a JSON Web Token, three parts with dots between")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("identity token: the second part is not base64url")
	}
	var claims struct {
		Audience json.RawMessage `json:"aud"`
		Expiry   float64         `json:"exp"`
	}
	if err := Decode(payload, &claims); err != nil {
		return fmt.Errorf("identity token: %w", err)
	}
	var many []string
	if json.Unmarshal(claims.Audience, &many) != nil {
		many = make([]string, 1)
		_ = json.Unmarshal(claims.Audience, &many[0]) // "" is refused
	}
	if !slices.Contains(many, audience) {
		return fmt.Errorf("identity token: got the audience %s, want %q", clip(string(claims.Audience)), audience)
	}
	if end := time.Unix(int64(claims.Expiry), 0); now.After(end) {
		return fmt.Errorf("identity token: expired at %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}
