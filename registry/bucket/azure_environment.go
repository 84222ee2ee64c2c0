package bucket

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

const (
	azureResource     = "https://storage.azure.com/"
	azureMetadataHost = "169.254.169.254"
	maxAzureFile      = 64 << 10 // bytes of a file with a token
)

// OpenAzure opens the container of an address with the settings of the environment.
//
// Credentials: AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_KEY or
// AZURE_STORAGE_SAS_TOKEN for the account of the address, or the identity of the
// workload (AZURE_FEDERATED_TOKEN_FILE), of a service principal
// (AZURE_CLIENT_SECRET) or of the machine.
func OpenAzure(a Address) (Bucket, error) {
	opt, err := azureSettings(a.Account)
	if err != nil {
		return nil, err
	}
	return NewAzure(a.Account, a.Bucket, opt)
}

// azureSettings returns the options for an account.
func azureSettings(account string) (AzureOptions, error) {
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		return parseConnection(text, account)
	}
	if name := os.Getenv("AZURE_STORAGE_ACCOUNT"); name == "" || name == account {
		if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
			raw, err := base64.StdEncoding.DecodeString(key)
			if err != nil {
				return AzureOptions{}, fmt.Errorf("AZURE_STORAGE_KEY: %w", err)
			}
			return AzureOptions{Key: raw}, nil
		}
		if sas := os.Getenv("AZURE_STORAGE_SAS_TOKEN"); sas != "" {
			return AzureOptions{SAS: sas}, nil
		}
	}
	return AzureOptions{Token: (&azureSource{client: NewClient(NewTransport())}).token}, nil
}

// parseConnection parses a connection string, which must be of the account.
func parseConnection(text, account string) (AzureOptions, error) {
	part := map[string]string{}
	for field := range strings.SplitSeq(text, ";") {
		if name, value, ok := strings.Cut(field, "="); ok {
			part[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	if part["UseDevelopmentStorage"] == "true" {
		return AzureOptions{}, errors.New("AZURE_STORAGE_CONNECTION_STRING: UseDevelopmentStorage is not supported, want BlobEndpoint, AccountName and AccountKey")
	}
	if name := part["AccountName"]; name != "" && name != account {
		return AzureOptions{}, fmt.Errorf("AZURE_STORAGE_CONNECTION_STRING: got the account %q, the address names %q", name, account)
	}
	opt := AzureOptions{SAS: part["SharedAccessSignature"], Endpoint: part["BlobEndpoint"]}
	if opt.Endpoint == "" {
		opt.Endpoint = cmp.Or(part["DefaultEndpointsProtocol"], "https") + "://" + account + ".blob." + cmp.Or(part["EndpointSuffix"], "core.windows.net")
	}
	var err error
	if key := part["AccountKey"]; key != "" {
		if opt.Key, err = base64.StdEncoding.DecodeString(key); err != nil {
			return opt, fmt.Errorf("AZURE_STORAGE_CONNECTION_STRING: AccountKey: %w", err)
		}
	}
	return opt, nil
}

// azureSource fetches access tokens and keeps each until a minute before its end.
type azureSource struct {
	client *http.Client

	mu    sync.Mutex
	value string
	until time.Time
}

// token returns an access token.
func (s *azureSource) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.value, nil
	}
	req, err := tokenRequest(ctx)
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
	data, err := ReadText(resp)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token   string      `json:"access_token"`
		Seconds json.Number `json:"expires_in"` // a text from machines
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Token == "" {
		return "", fmt.Errorf("%w: no access token: %w", ErrDenied, errors.Join(err, ErrAnswer))
	}
	seconds, _ := answer.Seconds.Int64()
	s.value, s.until = answer.Token, time.Now().Add(time.Duration(seconds)*time.Second-time.Minute)
	return s.value, nil
}

// tokenRequest builds the request for a token of the workload, of a service
// principal or of the machine.
func tokenRequest(ctx context.Context) (*http.Request, error) {
	file, secret, client := os.Getenv("AZURE_FEDERATED_TOKEN_FILE"), os.Getenv("AZURE_CLIENT_SECRET"), os.Getenv("AZURE_CLIENT_ID")
	if file == "" && secret == "" {
		query := url.Values{"api-version": {"2018-02-01"}, "resource": {azureResource}}
		if client != "" {
			query.Set("client_id", client)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+azureMetadataHost+"/metadata/identity/oauth2/token?"+query.Encode(), nil)
		if err == nil {
			req.Header.Set("Metadata", "true")
		}
		return req, err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "scope": {azureResource + ".default"}}
	if secret != "" {
		form.Set("client_secret", secret)
	} else {
		data, err := fsx.ReadFile(file, maxAzureFile)
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", strings.TrimSpace(string(data)))
	}
	host := cmp.Or(os.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com/")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(host, "/")+"/"+url.PathEscape(os.Getenv("AZURE_TENANT_ID"))+"/oauth2/v2.0/token", strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, err
}
