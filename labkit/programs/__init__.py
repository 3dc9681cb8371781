"""Programs: which package brings each, by the one table `packages.toml`, and who calls which."""
