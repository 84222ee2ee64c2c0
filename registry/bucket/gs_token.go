package bucket

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

const (
	gsScope        = "https://www.googleapis.com/auth/devstorage.read_write"
	gsMetadataHost = "metadata.google.internal"
	maxGSFile      = 64 << 10 // bytes of a file of credentials
)

// OpenGS opens the bucket of an address with the settings of the environment.
//
// Credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, the file of
// gcloud's application default credentials, or the metadata server of the
// machine. STORAGE_EMULATOR_HOST names another server, used without credentials.
func OpenGS(a Address) (Bucket, error) {
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		return NewGS(a.Bucket, GSOptions{Endpoint: host})
	}
	source, err := newSource(credentialsFile(), cmp.Or(os.Getenv("GCE_METADATA_HOST"), gsMetadataHost))
	if err != nil {
		return nil, err
	}
	return NewGS(a.Bucket, GSOptions{Token: source.token})
}

// credentialsFile returns the file with the user's credentials, or "".
func credentialsFile() string {
	if file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"); file != "" {
		return file
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	file := filepath.Join(dir, "gcloud", "application_default_credentials.json")
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// account is a file of credentials.
type account struct {
	Type         string `json:"type"`
	Email        string `json:"client_email"`
	KeyID        string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`
}

// gsSource fetches access tokens and keeps each until a minute before its end.
type gsSource struct {
	client   *http.Client
	account  account // zero: the metadata server
	key      *rsa.PrivateKey
	metadata string

	mu    sync.Mutex
	value string
	until time.Time
}

// newSource reads the credentials; without a file they come from the metadata
// server.
func newSource(file, metadata string) (*gsSource, error) {
	s := &gsSource{client: NewClient(NewTransport()), metadata: metadata}
	if file == "" {
		return s, nil
	}
	data, err := fsx.ReadFile(file, maxGSFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &s.account); err != nil {
		return nil, fmt.Errorf("credentials %s: %w", file, err)
	}
	s.account.TokenURI = cmp.Or(s.account.TokenURI, "https://oauth2.googleapis.com/token")
	switch s.account.Type {
	case "service_account":
		if s.key, err = parseKey(s.account.PrivateKey); err != nil {
			return nil, fmt.Errorf("credentials %s: private_key: %w", file, err)
		}
	case "authorized_user":
	default:
		return nil, fmt.Errorf("credentials %s: unsupported type %q, want service_account or authorized_user", file, s.account.Type)
	}
	return s, nil
}

func parseKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("not a PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("got %T, want an RSA key", key)
	}
	return private, nil
}

// token returns an access token.
func (s *gsSource) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.value, nil
	}
	req, err := s.request(ctx)
	if err != nil {
		return "", err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: no access token: %w", ErrDenied, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%w: no access token: %w", ErrDenied, ReadStatus(resp, nil))
	}
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int    `json:"expires_in"`
	}
	if err := decode(resp, &answer); err != nil || answer.Token == "" {
		return "", fmt.Errorf("%w: no access token: %w", ErrDenied, errors.Join(err, ErrAnswer))
	}
	s.value, s.until = answer.Token, time.Now().Add(time.Duration(answer.Seconds)*time.Second-time.Minute)
	return s.value, nil
}

// gsRequest builds the request for a token.
func (s *gsSource) request(ctx context.Context) (*http.Request, error) {
	if s.account.Type == "" {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.metadata+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
		if err == nil {
			req.Header.Set("Metadata-Flavor", "Google")
		}
		return req, err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {s.account.ClientID}, "client_secret": {s.account.ClientSecret}, "refresh_token": {s.account.RefreshToken}}
	if s.key != nil {
		assertion, err := s.assertion(time.Now())
		if err != nil {
			return nil, err
		}
		form = url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.account.TokenURI, strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, err
}

// assertion returns the signed statement of a service account (RFC 7523, RS256).
func (s *gsSource) assertion(now time.Time) (string, error) {
	part := func(v any) (string, error) {
		data, err := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(data), err
	}
	head, err := part(map[string]string{"alg": "RS256", "typ": "JWT", "kid": s.account.KeyID})
	if err != nil {
		return "", err
	}
	claims, err := part(map[string]any{"iss": s.account.Email, "scope": gsScope, "aud": s.account.TokenURI, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(head + "." + claims))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	return head + "." + claims + "." + base64.RawURLEncoding.EncodeToString(signature), err
}
