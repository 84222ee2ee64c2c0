package bucket

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// OpenS3 opens the bucket of an address with the settings of the environment.
//
// Credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile
// AWS_PROFILE of ~/.aws/credentials and ~/.aws/config, or the role of the
// container or the machine. AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL names another
// server than Amazon's; its buckets are addressed by path.
func OpenS3(a Address) (Bucket, error) {
	profile := readProfile(configFile(), cmp.Or(os.Getenv("AWS_PROFILE"), "default"))
	return NewS3(a.Bucket, S3Options{
		Endpoint:    cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), profile["endpoint_url"]),
		Region:      cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), profile["region"]),
		Credentials: s3Chain(),
	})
}

// s3Chain returns the usual order of credentials.
func s3Chain() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Client: NewClient(NewTransport())},
	})
}

func configFile() string {
	if file := os.Getenv("AWS_CONFIG_FILE"); file != "" {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".aws", "config")
}

// readProfile returns the settings of a profile in the file, if it exists.
func readProfile(file, profile string) map[string]string {
	settings := map[string]string{}
	f, err := os.Open(file)
	if err != nil {
		return settings
	}
	defer f.Close()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if head, ok := strings.CutPrefix(line, "["); ok {
			name := strings.TrimSpace(strings.TrimSuffix(head, "]"))
			inside = strings.TrimSpace(strings.TrimPrefix(name, "profile ")) == profile
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && inside && !strings.HasPrefix(line, "#") {
			settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return settings
}
