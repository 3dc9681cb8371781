"""The users of a tile, and its social web application: packed with the shop for any host.

The shop's driver has one loop for many customers. Users of mail are asked to wait by its library,
so that each of a tile has a thread. Start with `users`.
"""
