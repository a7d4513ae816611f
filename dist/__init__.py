"""Plan -> packs in their place, with torch.distributed. Nothing is public here yet."""

__all__: list[str] = []
