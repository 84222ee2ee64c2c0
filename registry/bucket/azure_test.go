package bucket_test

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// openAzure opens a container of the double; uploads have blocks of 256 KiB.
func openAzure(t *testing.T, store *buckettest.Store) *bucket.Azure {
	t.Helper()
	b, err := bucket.NewAzure("account", "container", bucket.AzureOptions{Endpoint: store.URL, Key: []byte("key"), PartSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAzure(t *testing.T) {
	store := buckettest.NewAzure(t)
	buckettest.Run(t, openAzure(t, store), buckettest.Options{})
}

// TestAzureServer runs the suite against the server of the environment (make buckets):
// MM_BUCKETS_AZURE is ACCOUNT/CONTAINER, which is created.
func TestAzureServer(t *testing.T) {
	account, container, ok := strings.Cut(os.Getenv("MM_BUCKETS_AZURE"), "/")
	if !ok {
		t.Skip("MM_BUCKETS_AZURE names no container to create at a server; make buckets starts one")
	}
	b, err := bucket.OpenAzure(bucket.Address{Scheme: "azure", Account: account, Bucket: container})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.(*bucket.Azure).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, buckettest.Options{Prefix: rand.Text() + "/", Large: 17 << 20})
}
