package ssh

const MaxKey = maxKey
