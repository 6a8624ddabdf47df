package manifest

import "net/url"

// fieldKind is what a setting of a mount may be.
type fieldKind int8

const (
	textField     fieldKind = iota // text, perhaps null
	nameField                      // text that has to be there
	flagField                      // true or false
	countField                     // a whole number from 0, perhaps null
	textsField                     // a list of texts, perhaps null
	mapField                       // an object whose values are texts
	optionsField                   // an object whose values are texts or null
	settingsField                  // an object with fields of its own
)

// setting describes one field of a mount, pattern or driver.
type setting struct {
	name   string
	kind   fieldKind
	def    any       // the default; nil for null
	oneOf  []string  // the texts that are allowed, if not all
	fields []setting // of a settingsField
	// host marks a path or reference on the host, refused from strangers.
	host bool
	// check returns what is wrong with a text, or "".
	check func(string) string
}

// mountType describes a type of mount.
type mountType struct {
	settings []setting
	// patterns and drivers are those that can mount it.
	patterns, drivers []string
}

// mountFields are the fields that every mount has after metaFields.
var mountFields = []string{"mount_path", "read_only", "mount_strategy"}

// mountTypes are the six types of storage with their fields in the order of the normal form.
var mountTypes = map[string]mountType{
	"s3_mount": {
		settings: []setting{
			{name: "bucket", kind: nameField},
			{name: "access_key_id"},
			{name: "secret_access_key"},
			{name: "session_token"},
			{name: "prefix"},
			{name: "region"},
			{name: "endpoint_url", check: endpointProblem},
			{name: "s3_provider", def: "AWS"},
		},
		patterns: []string{"rclone", "mountpoint"}, drivers: []string{"mountpoint", "rclone"},
	},
	"gcs_mount": {
		settings: []setting{
			{name: "bucket", kind: nameField},
			{name: "access_id"},
			{name: "secret_access_key"},
			{name: "prefix"},
			{name: "region"},
			{name: "endpoint_url", check: endpointProblem},
			{name: "service_account_file", host: true},
			{name: "service_account_credentials"},
			{name: "access_token"},
		},
		patterns: []string{"rclone", "mountpoint"}, drivers: []string{"mountpoint", "rclone"},
	},
	"r2_mount": {
		settings: []setting{
			{name: "bucket", kind: nameField},
			{name: "account_id", kind: nameField},
			{name: "access_key_id"},
			{name: "secret_access_key"},
			{name: "custom_domain"},
		},
		patterns: []string{"rclone"}, drivers: []string{"rclone"},
	},
	"azure_blob_mount": {
		settings: []setting{
			{name: "account", kind: nameField},
			{name: "container", kind: nameField},
			{name: "endpoint", check: endpointProblem},
			{name: "identity_client_id"},
			{name: "account_key"},
		},
		patterns: []string{"rclone", "fuse"}, drivers: []string{"rclone"},
	},
	"box_mount": {
		settings: []setting{
			{name: "path"},
			{name: "client_id"},
			{name: "client_secret"},
			{name: "access_token"},
			{name: "token"},
			{name: "box_config_file", host: true},
			{name: "config_credentials"},
			{name: "box_sub_type", def: "user", oneOf: []string{"user", "enterprise"}},
			{name: "root_folder_id"},
			{name: "impersonate"},
			{name: "owned_by"},
		},
		patterns: []string{"rclone"}, drivers: []string{"rclone"},
	},
	"s3_files_mount": {
		settings: append([]setting{
			{name: "file_system_id", kind: nameField},
			{name: "subpath"},
		}, s3FilesSettings...),
		patterns: []string{"s3files"},
	},
}

// s3FilesSettings are the options of mounting S3 Files, which a mount and its pattern share.
var s3FilesSettings = []setting{
	{name: "mount_target_ip"},
	{name: "access_point"},
	{name: "region"},
	{name: "extra_options", kind: optionsField},
}

// mountPatterns are the tools that mount storage inside a session, with their fields.
var mountPatterns = map[string][]setting{
	"rclone": {
		{name: "mode", def: "fuse", oneOf: []string{"fuse", "nfs"}},
		{name: "remote_name"},
		{name: "extra_args", kind: textsField, def: []string{}},
		{name: "nfs_addr"},
		{name: "nfs_mount_options", kind: textsField},
		{name: "config_file_path", host: true},
	},
	"mountpoint": {
		{name: "options", kind: settingsField, fields: []setting{
			{name: "prefix"},
			{name: "region"},
			{name: "endpoint_url", check: endpointProblem},
		}},
	},
	"fuse": {
		{name: "allow_other", kind: flagField, def: true},
		{name: "log_type", def: "syslog"},
		{name: "log_level", def: "log_debug"},
		{name: "cache_type", def: "block_cache", oneOf: []string{"block_cache", "file_cache"}},
		{name: "cache_path", check: cachePathProblem},
		{name: "cache_size_mb", kind: countField},
		{name: "block_cache_block_size_mb", kind: countField, def: int64(16)},
		{name: "block_cache_disk_timeout_sec", kind: countField, def: int64(3600)},
		{name: "file_cache_timeout_sec", kind: countField, def: int64(120)},
		{name: "file_cache_max_size_mb", kind: countField},
		{name: "attr_cache_timeout_sec", kind: countField},
		{name: "entry_cache_timeout_sec", kind: countField},
		{name: "negative_entry_cache_timeout_sec", kind: countField},
	},
	"s3files": {
		{name: "options", kind: settingsField, fields: s3FilesSettings},
	},
}

// driverSettings are the fields of the strategy docker_volume.
var driverSettings = []setting{
	{name: "driver", kind: nameField},
	{name: "driver_options", kind: mapField},
}

// endpointProblem returns what is wrong with the address of a storage service.
func endpointProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return "not the URL of a storage service"
	case u.Scheme != "http" && u.Scheme != "https":
		return "the URL has to begin with http:// or https://"
	case u.User != nil:
		return "the URL has a password in it; credentials have fields of their own"
	}
	return ""
}

// cachePathProblem returns what is wrong with the path of a cache, which lies in the workspace.
func cachePathProblem(s string) string {
	if relativeProblem(posixPath(s)) != "" {
		return "the cache has to lie in the workspace; write its path relative to the root"
	}
	return ""
}

// fieldNames returns the names of settings.
func fieldNames(settings []setting) []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return names
}
