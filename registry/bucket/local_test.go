package bucket_test

import (
	"testing"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

func TestDir(t *testing.T) {
	b, err := bucket.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	buckettest.Run(t, b, buckettest.Options{Folder: true})
}
